"""A client that prepares claims at a fixed rate: ``python -m bench.claims SOCKET``.

Each claim is unprepared a second later. Each line on stdin has names and UIDs of claims, as JSON;
it is answered with the milliseconds of each call, counted from when it was due.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from bench.processes import helper
from genericdp.kubelet.api import dra_pb2 as api
from genericdp.kubelet.api import dra_pb2_grpc as rpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from bench.processes import Helper

PER_SECOND = 100
_PREPARED_SECONDS = 1.0
_CALL_SECONDS = 45.0
"""As long as a kubelet waits."""


class Claims:
    """Prepares claims."""

    def __init__(self, process: Helper) -> None:
        self._process = process

    async def prepare(self, claims: Sequence[tuple[str, str]]) -> tuple[list[float], list[float]]:
        """Prepare and unprepare claims, given by name and UID.

        Return how long either took of each, in milliseconds; raise RuntimeError.
        """
        self._process.stdin.write(f"{json.dumps(claims)}\n".encode())
        answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError("a claim could not be prepared: see above")
        prepared, unprepared = json.loads(answer)
        return prepared, unprepared


@asynccontextmanager
async def client(socket: Path) -> AsyncIterator[Claims]:
    """Run a client of a DRA driver."""
    async with helper("bench.claims", socket) as process:
        yield Claims(process)


async def _serve(socket: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        stub: rpc.DRAPluginAsyncStub = rpc.DRAPluginStub(channel)
        while line := await asyncio.to_thread(sys.stdin.readline):
            claims, start = json.loads(line), time.monotonic() + 0.1
            async with asyncio.TaskGroup() as tasks:
                both = [
                    tasks.create_task(_both(stub, name, uid, start + i / PER_SECOND))
                    for i, (name, uid) in enumerate(claims)
                ]
            took = zip(*(one.result() for one in both), strict=True)
            print(json.dumps([*took]), flush=True)


async def _both(
    stub: rpc.DRAPluginAsyncStub, name: str, uid: str, due: float
) -> tuple[float, float]:
    """Prepare and unprepare a claim; return how late each answer was, in milliseconds."""
    claim = [api.Claim(namespace="default", name=name, uid=uid)]
    await asyncio.sleep(due - time.monotonic())
    answer = await stub.NodePrepareResources(
        api.NodePrepareResourcesRequest(claims=claim), timeout=_CALL_SECONDS
    )
    prepared = time.monotonic()
    if error := answer.claims[uid].error:
        raise RuntimeError(error)
    due_again = due + _PREPARED_SECONDS
    await asyncio.sleep(due_again - time.monotonic())
    last = await stub.NodeUnprepareResources(
        api.NodeUnprepareResourcesRequest(claims=claim), timeout=_CALL_SECONDS
    )
    unprepared = time.monotonic()
    if error := last.claims[uid].error:
        raise RuntimeError(error)
    return (prepared - due) * 1000, (unprepared - due_again) * 1000


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
