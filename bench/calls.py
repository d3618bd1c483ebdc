"""Clients that call as the kubelet does, each in a process of its own.

``python -m bench.calls SOCKET DEVICE`` allocates a device again and again. It reads ``begin PAUSE``
and ``end`` from stdin. ``python -m bench.calls SOCKET`` prepares claims at a fixed rate, and
unprepares each a second later. It reads their names and UIDs from stdin, as JSON. Both answer with
the milliseconds that each call took, as JSON; those of claims count from when a call was due.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import grpc

from bench.processes import helper
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import dra_pb2 as dra

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from bench.kubelet import List
    from bench.processes import Helper

PER_SECOND = 100
_PREPARED_SECONDS = 1.0
_CALL_SECONDS = 45.0
"""As long as a kubelet waits."""


class Calls:
    """A client that runs; its methods raise RuntimeError if a call fails."""

    def __init__(self, process: Helper) -> None:
        self._process = process

    async def begin(self, *, pause_seconds: float = 0.0) -> None:
        """Begin to allocate, with this pause between two calls."""
        await self._say(f"begin {pause_seconds}")

    async def end(self) -> list[float]:
        """Stop allocating; return the milliseconds of each call, of which there is at least one."""
        await self._say("end")
        latencies: list[float] = await self._answer()
        return latencies

    async def prepare(self, claims: Sequence[tuple[str, str]]) -> tuple[list[float], list[float]]:
        """Prepare and unprepare claims, given by name and UID; return the milliseconds of each."""
        await self._say(json.dumps(claims))
        prepared, unprepared = await self._answer()
        return prepared, unprepared

    async def _say(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n".encode())
        with suppress(ConnectionError):  # it has ended, which its answer shows
            await self._process.stdin.drain()

    async def _answer(self) -> Any:
        if answer := await self._process.stdout.readline():
            return json.loads(answer)
        raise RuntimeError("a call has failed: see above")


@asynccontextmanager
async def allocating(plugin: List) -> AsyncIterator[Calls]:
    """Run a client that allocates the device of a plugin's first list."""
    async with helper("bench.calls", plugin.socket, plugin.device) as process:
        yield Calls(process)


@asynccontextmanager
async def preparing(socket: Path) -> AsyncIterator[Calls]:
    """Run a client of a DRA driver."""
    async with helper("bench.calls", socket) as process:
        yield Calls(process)


def _allocate(socket: str, device: str) -> None:
    container = api.ContainerAllocateRequest(devices_ids=[device])
    request = api.AllocateRequest(container_requests=[container]).SerializeToString()
    # Unbuffered: select knows nothing of what a buffer holds.
    commands = open(0, "rb", buffering=0)  # noqa: SIM115
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        allocate: Any = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
        while line := commands.readline():  # "begin PAUSE"
            pause, latencies, ended = float(line.split()[1]), list[float](), False
            while not ended:
                since = time.perf_counter()
                allocate(request, timeout=30)
                latencies.append((time.perf_counter() - since) * 1000)
                ended = bool(select.select([commands], [], [], pause)[0])
            commands.readline()  # "end"
            print(json.dumps(latencies), flush=True)


async def _prepare(socket: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        while line := await asyncio.to_thread(sys.stdin.readline):
            claims, start = json.loads(line), time.monotonic() + 0.1
            async with asyncio.TaskGroup() as tasks:
                both = [
                    tasks.create_task(_both(channel, name, uid, start + i / PER_SECOND))
                    for i, (name, uid) in enumerate(claims)
                ]
            print(json.dumps([*zip(*(task.result() for task in both), strict=True)]), flush=True)


async def _both(channel: grpc.aio.Channel, name: str, uid: str, due: float) -> tuple[float, float]:
    """Prepare and unprepare a claim; return how late each answer was, in milliseconds."""
    claim, late = dra.Claim(namespace="default", name=name, uid=uid), list[float]()
    for method, request, response in (
        ("Prepare", dra.NodePrepareResourcesRequest, dra.NodePrepareResourcesResponse),
        ("Unprepare", dra.NodeUnprepareResourcesRequest, dra.NodeUnprepareResourcesResponse),
    ):
        call: Any = channel.unary_unary(
            f"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/Node{method}Resources",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        await asyncio.sleep(due - time.monotonic())
        answer = await call(request(claims=[claim]), timeout=_CALL_SECONDS)
        late.append((time.monotonic() - due) * 1000)
        if error := answer.claims[uid].error:
            raise RuntimeError(error)
        due += _PREPARED_SECONDS
    return late[0], late[1]


if __name__ == "__main__":
    if sys.argv[2:]:
        _allocate(*sys.argv[1:])
    else:
        asyncio.run(_prepare(sys.argv[1]))
