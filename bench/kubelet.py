"""A kubelet that only listens: ``python -m bench.kubelet DIRECTORY``.

It accepts every registration and reports when the bytes of each list are there. Only the first
list of a stream is decoded, after its time was taken.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from bench.bare import serve
from bench.processes import helper
from genericdp.kubelet.api import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

_LIST_SECONDS = 60.0
_CHANNEL = (("grpc.use_local_subchannel_pool", 1),)


@dataclass(frozen=True, kw_only=True, slots=True)
class List:
    """One message of a ListAndWatch stream."""

    at: float
    """When its bytes were there, on the monotonic clock, which all processes share."""
    resource: str
    socket: str
    """The plugin's."""
    device: str = ""
    """The ID of a healthy device, in the first list of a stream."""


class Kubelet:
    """Reports the lists of all plugins, in the order in which they came."""

    def __init__(self, lines: asyncio.StreamReader, started: float) -> None:
        self._lines = lines
        self.started = started
        """When its socket was about to appear, on the monotonic clock."""

    async def next_list(self, *, since: float = 0.0) -> List:
        """Return the next list that came after ``since``; raise TimeoutError."""
        async with asyncio.timeout(_LIST_SECONDS):
            while line := await self._lines.readline():
                found = List(**json.loads(line))
                if found.at >= since:
                    return found
        raise RuntimeError("the kubelet has ended: see above")

    async def first_lists(self, resources: Iterable[str]) -> dict[str, List]:
        """Return the first list with devices of each resource; raise TimeoutError."""
        missing, found = set(resources), dict[str, List]()
        while missing:
            first = await self.next_list()
            if first.device and first.resource in missing:
                missing.remove(first.resource)
                found[first.resource] = first
        return found


@asynccontextmanager
async def kubelet(directory: Path) -> AsyncIterator[Kubelet]:
    """Run a kubelet in a directory; it listens when this yields, and is killed at the end."""
    async with helper("bench.kubelet", directory) as process:
        started = await process.stdout.readline()
        if not started:
            raise RuntimeError("the kubelet has not started: see above")
        yield Kubelet(process.stdout, float(started))


async def _watch(socket: str, resource: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL) as channel:
        call: Any = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")
        device = ""
        with suppress(grpc.aio.AioRpcError):  # its plugin has ended
            async for message in call(b""):
                at, known = time.monotonic(), device
                device = known or _healthy_device(message)
                first = "" if known else device
                found = List(at=at, resource=resource, socket=socket, device=first)
                print(json.dumps(asdict(found)), flush=True)


def _healthy_device(message: bytes) -> str:
    devices = api.ListAndWatchResponse.FromString(message).devices
    return min((device.ID for device in devices if device.health == "Healthy"), default="")


async def _serve(directory: str) -> None:
    async with asyncio.TaskGroup() as tasks:

        async def register(request: bytes, _context: object) -> bytes:
            asked = api.RegisterRequest.FromString(request)
            tasks.create_task(_watch(f"{directory}/{asked.endpoint}", asked.resource_name))
            return b""

        started = time.monotonic()
        method: Any = grpc.unary_unary_rpc_method_handler(register)
        server = await serve(f"{directory}/kubelet.sock", "v1beta1.Registration", Register=method)
        print(repr(started), flush=True)
        await server.wait_for_termination()


if __name__ == "__main__":
    for left in Path(
        sys.argv[1]
    ).iterdir():  # of a former kubelet and its plugins, as a kubelet does
        left.unlink(missing_ok=True)  # a plugin removes its own, too
    asyncio.run(_serve(sys.argv[1]))
