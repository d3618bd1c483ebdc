"""A kubelet without Kubernetes, for trying configs and for tests: real gRPC on real sockets.

It does what a kubelet's device manager does for plugins that register on ``kubelet.sock``, bugs
included. It serves ``PodResourcesLister.List`` if it is given a socket for that. It has no topology
manager, knows no init containers, has no watcher of ``plugins_registry``, and never forgets a
resource (KST-7).
"""
