"""A kubelet without Kubernetes: real gRPC on real sockets, for trying configs and for tests.

It does what the device manager of a kubelet does, its mistakes included, for plugins that register
on ``kubelet.sock``, and what the topology manager does by their hints in the scope ``container``.
It serves ``PodResourcesLister`` where it is given a socket. Left out: the watcher of
``plugins_registry``.
"""
