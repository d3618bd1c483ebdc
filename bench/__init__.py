"""Measures the daemon beside a bare plugin on the same libraries: ``python -m bench``."""

import genericdp  # noqa: F401  # before grpc is imported anywhere: it sets gRPC's environment
