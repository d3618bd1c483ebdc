"""A server of a test's own answers, and clients that send whatever they like."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from genericdp.settings import Address
from genericdp.status.listen import bind_sockets
from genericdp.status.server import Limits, Response, Server

from tests.polling import poll_until

ANYWHERE = Address(host="127.0.0.1", port=0)
"""Where tests listen."""
BIG = bytes(32 * 1024 * 1024)
"""More than the kernel keeps for one who does not read."""
PATIENCE_SECONDS = 60.0
"""The machine may be busy with something else."""


@dataclass
class Serving:
    """A server that runs."""

    port: int
    asked: list[str]
    """The paths."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def says(self, data: bytes, *, half_closed: bool = False) -> bytes:
        """Send this, and give all that comes until the other side ends the connection."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            if half_closed:
                writer.write_eof()
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await reader.read()
        finally:
            writer.close()

    async def get(self, path: str = "/") -> bytes:
        return await self.says(request(path))

    async def are_left(self, count: int) -> None:
        """Wait until there are this many connections."""
        await poll_until(lambda: connections() == count, seconds=PATIENCE_SECONDS)


def connections() -> int:
    """Return how many are being served by this process."""
    return sum(task.get_name() == "HTTP connection" for task in asyncio.all_tasks())


def request(path: str = "/", *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    """A request."""
    lines = [f"{method} {path} HTTP/{version}", "Host: node-1", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


async def answered(path: str) -> Response:
    """Answer as few paths as a test needs."""
    if path == "/big":
        return Response(status=200, body=BIG)
    if path == "/wrong":
        raise KeyError("a mistake of ours")
    return Response(status=200, body=f"{path}\n".encode())


@asynccontextmanager
async def serving(
    answer: Callable[[str], Awaitable[Response]] = answered,
    *,
    listener: socket.socket | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Serving]:
    """Run a server."""
    entry = listener or bind_sockets(ANYWHERE)[0]
    asked: list[str] = []

    async def noted(path: str) -> Response:
        asked.append(path)
        return await answer(path)

    server = Server(noted, limits=limits)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run([entry]))
        yield Serving(entry.getsockname()[1], asked)
        running.cancel()
