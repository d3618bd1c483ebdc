"""The only place that speaks gRPC: registration, server, messages."""

import os

# Before the first import of grpc: no handlers around a fork (children are only made by
# posix_spawn or vfork and exec), and no lines of its own on stderr.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
