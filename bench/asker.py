"""A client that asks which devices are preferred: ``python -m bench.asker SOCKET``.

In a process of its own, so that what it does itself does not hold up the loop that answers. For
each line with a wish it prints how long each of its calls took.
"""

from __future__ import annotations

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["GRPC_VERBOSITY"] = "NONE"

import json
import random
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from bench.beside import ask, beside
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

_MOST_BYTES = 16 * 1024 * 1024


class Asker:
    """Asks one after the other, as the kubelet does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def ask(self, ids: Sequence[str], size: int, rounds: int) -> list[float]:
        """Give how long each call took, in milliseconds."""
        wish = {"ids": list(ids), "size": size, "rounds": rounds}
        took: list[float] = json.loads(await ask(self._process, json.dumps(wish)))
        return took


@asynccontextmanager
async def asking(socket: Path) -> AsyncIterator[Asker]:
    """Run one that calls a plugin's socket."""
    async with beside("bench.asker", socket) as process:
        yield Asker(process)


def _ask(socket: str) -> None:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/v1beta1.DevicePlugin/GetPreferredAllocation"
        )
        for line in sys.stdin:
            wish = json.loads(line)
            took = [_called(call, wish["ids"], wish["size"]) for _ in range(wish["rounds"])]
            print(json.dumps(took), flush=True)


def _called(call: grpc.UnaryUnaryMultiCallable[bytes, bytes], ids: list[str], size: int) -> float:
    random.shuffle(ids)  # as a kubelet's are (PRF-2)
    one = api.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=size)
    request = api.PreferredAllocationRequest(container_requests=[one]).SerializeToString()
    since = time.perf_counter()
    answer = call(request, timeout=10)
    took = (time.perf_counter() - since) * 1000
    (given,) = api.PreferredAllocationResponse.FromString(answer).container_responses
    if len(given.deviceIDs) != size:
        raise AssertionError(f"{len(given.deviceIDs)} devices instead of {size}")
    return took


if __name__ == "__main__":
    _ask(sys.argv[1])
