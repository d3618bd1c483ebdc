"""genericdp: any hardware of a Kubernetes node, schedulable from a YAML file."""

import os

__version__ = "0.1.0"

# Here, because it must come before the first import of grpc, wherever that is: no handlers
# around a fork (children are only made by vfork and exec), no lines of its own on stderr.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
