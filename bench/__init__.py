"""Measures the daemon next to another device plugin: ``python -m bench``."""

import genericdp  # noqa: F401  # before grpc is imported anywhere: it sets gRPC's environment
