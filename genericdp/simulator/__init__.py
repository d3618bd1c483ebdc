"""A kubelet without Kubernetes: real gRPC on real sockets, for trying configs and for tests.

It does what the device manager of a kubelet does, its mistakes included, for plugins that register
on ``kubelet.sock``. Left out: the pod-resources server, the watcher of ``plugins_registry`` and
NUMA alignment (the topology manager's policy is ``none``).
"""
