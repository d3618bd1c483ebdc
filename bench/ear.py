"""A kubelet that only listens: ``python -m bench.ear FOLDER`` tells when each list has come.

It decodes nothing, so that a list is noted the moment its bytes are here.
"""

from __future__ import annotations

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["GRPC_VERBOSITY"] = "NONE"

import asyncio
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from bench.beside import beside, output
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path
    from typing import Any

_LIST_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """One message of a ListAndWatch stream."""

    at: float
    """When its bytes were there, in seconds of the monotonic clock, which all processes share."""
    size: int
    """In bytes."""
    resource: str


class Ear:
    """Hears of lists, in the order in which they came."""

    def __init__(self, lines: asyncio.StreamReader) -> None:
        self._lines = lines

    async def next_list(self, *, since: float = 0.0) -> Heard:
        """Give the next list that came after ``since``; raises TimeoutError."""
        async with asyncio.timeout(_LIST_SECONDS):
            while True:
                at, size, resource = (await self._lines.readline()).decode().split()
                if float(at) >= since:
                    return Heard(at=float(at), size=int(size), resource=resource)

    async def first_lists(self, resources: Iterable[str]) -> None:
        """Wait for a list of each of these."""
        missing = set(resources)
        while missing:
            missing.discard((await self.next_list()).resource)

    async def lists_for(self, seconds: float) -> list[Heard]:
        """Give what comes within so many seconds from now."""
        heard: list[Heard] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    heard.append(await self.next_list())
        return heard


@asynccontextmanager
async def ear(folder: Path) -> AsyncIterator[Ear]:
    """Run one in a kubelet's folder; it is ready when this is."""
    async with beside("bench.ear", folder) as process:
        await output(process).readline()
        yield Ear(output(process))


async def _hear(path: str, resource: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch"
        )
        with suppress(grpc.aio.AioRpcError):  # its plugin has gone
            async for message in call(b""):
                at = time.monotonic()
                print(repr(at), len(message), resource, flush=True)


async def _listen(folder: str) -> None:
    async with asyncio.TaskGroup() as tasks:

        async def register(request: bytes, _context: object) -> bytes:
            asked = api.RegisterRequest.FromString(request)
            tasks.create_task(_hear(f"{folder}/{asked.endpoint}", asked.resource_name))
            return b""

        server = grpc.aio.server()
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Register": grpc.unary_unary_rpc_method_handler(register)
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", handlers),)
        )
        server.add_insecure_port(f"unix:{folder}/kubelet.sock")
        await server.start()
        print("ready", flush=True)
        await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_listen(sys.argv[1]))
