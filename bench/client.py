"""A client that allocates a device again and again: ``python -m bench.client SOCKET DEVICE``.

It reads ``begin PAUSE`` and ``end`` from stdin, and answers the latter with the milliseconds that
each call in between took, as JSON.
"""

from __future__ import annotations

import json
import select
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import grpc

from bench.processes import helper
from genericdp.kubelet.api import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.kubelet import List
    from bench.processes import Helper


class Client:
    """Calls Allocate, one call after the other, as the kubelet does."""

    def __init__(self, process: Helper) -> None:
        self._process = process

    async def begin(self, *, pause_seconds: float = 0.0) -> None:
        """Begin to call, with so long between two calls."""
        await self._say(f"begin {pause_seconds}")

    async def end(self) -> list[float]:
        """Stop calling; returns how long each call took, in milliseconds: of one at least.

        Raises RuntimeError if one failed.
        """
        await self._say("end")
        answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError("a call of Allocate has failed: see above")
        latencies: list[float] = json.loads(answer)
        return latencies

    async def _say(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n".encode())
        with suppress(ConnectionError):  # it has ended, which its answer shows
            await self._process.stdin.drain()


@asynccontextmanager
async def client(plugin: List) -> AsyncIterator[Client]:
    """Run one that allocates the device of a plugin's first list."""
    async with helper("bench.client", plugin.socket, plugin.device) as process:
        yield Client(process)


def _serve(socket: str, device: str) -> None:
    one = api.ContainerAllocateRequest(devices_ids=[device])
    request = api.AllocateRequest(container_requests=[one]).SerializeToString()
    # Unbuffered: select knows nothing of what a buffer holds.
    commands = open(0, "rb", buffering=0)  # noqa: SIM115
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        allocate: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/v1beta1.DevicePlugin/Allocate"
        )
        while line := commands.readline():  # "begin PAUSE"
            pause, latencies, ended = float(line.split()[1]), list[float](), False
            while not ended:
                since = time.perf_counter()
                allocate(request, timeout=30)
                latencies.append((time.perf_counter() - since) * 1000)
                ended = bool(select.select([commands], [], [], pause)[0])
            commands.readline()  # "end"
            print(json.dumps(latencies), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
