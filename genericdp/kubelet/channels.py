"""gRPC channels to unix sockets."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

GRPC_VERSION: str = grpc.__version__

_OPTIONS = (
    # By default gRPC sends the escaped path, which strict servers refuse (TRN-1).
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    # Channels to one address share a connection otherwise: each attempt needs its own (REG-3).
    ("grpc.use_local_subchannel_pool", 1),
)


@asynccontextmanager
async def channel(socket: Path, **options: int) -> AsyncIterator[grpc.aio.Channel]:
    """Yield a channel with a connection of its own, closed on exit.

    ``options``: more of them, as gRPC names them after ``grpc.``.
    """
    more = ((f"grpc.{name}", value) for name, value in options.items())
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=(*_OPTIONS, *more)) as opened:
        yield opened
