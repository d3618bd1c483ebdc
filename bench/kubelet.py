"""A kubelet that only listens: ``python -m bench.kubelet FOLDER``.

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
from typing import TYPE_CHECKING

import grpc

from bench.processes import helper
from genericdp.kubelet.api import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from typing import Any

_LIST_SECONDS = 60.0
_CHANNEL = (("grpc.use_local_subchannel_pool", 1),)


@dataclass(frozen=True, kw_only=True, slots=True)
class List:
    """One message of a ListAndWatch stream."""

    at: float
    """When its bytes were there, on the monotonic clock, which all processes share."""
    size: int
    """In bytes."""
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
        """Return the next list that came after ``since``; raises TimeoutError."""
        async with asyncio.timeout(_LIST_SECONDS):
            while True:
                line = await self._lines.readline()
                if not line:
                    raise RuntimeError("the kubelet has ended: see above")
                found = List(**json.loads(line))
                if found.at >= since:
                    return found

    async def first_lists(self, resources: Iterable[str]) -> dict[str, List]:
        """Return the first list with devices of each resource; raises TimeoutError."""
        missing, found = set(resources), dict[str, List]()
        while missing:
            one = await self.next_list()
            if one.device and one.resource in missing:
                missing.remove(one.resource)
                found[one.resource] = one
        return found


@asynccontextmanager
async def kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    """Run a kubelet in a folder; it listens when this yields, and is killed at the end."""
    async with helper("bench.kubelet", folder) as process:
        started = await process.stdout.readline()
        if not started:
            raise RuntimeError("the kubelet has not started: see above")
        yield Kubelet(process.stdout, float(started))


async def _watch(socket: str, resource: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL) as channel:
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch"
        )
        known = False
        with suppress(grpc.aio.AioRpcError):  # its plugin has gone
            async for message in call(b""):
                at = time.monotonic()
                device = "" if known else _healthy_device(message)
                known = known or bool(device)
                found = List(
                    at=at, size=len(message), resource=resource, socket=socket, device=device
                )
                print(json.dumps(asdict(found)), flush=True)


def _healthy_device(message: bytes) -> str:
    devices = api.ListAndWatchResponse.FromString(message).devices
    return min((one.ID for one in devices if one.health == "Healthy"), default="")


async def _serve(folder: Path) -> None:
    async with asyncio.TaskGroup() as tasks:

        async def register(request: bytes, _context: object) -> bytes:
            asked = api.RegisterRequest.FromString(request)
            tasks.create_task(_watch(f"{folder}/{asked.endpoint}", asked.resource_name))
            return b""

        server = grpc.aio.server()
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Register": grpc.unary_unary_rpc_method_handler(register)
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", handlers),)
        )
        started = time.monotonic()
        server.add_insecure_port(f"unix:{folder}/kubelet.sock")
        await server.start()
        print(repr(started), flush=True)
        await server.wait_for_termination()


def _clear(folder: Path) -> None:
    """Remove what is left of a former kubelet and its plugins, as a kubelet does."""
    for left in folder.iterdir():
        left.unlink(missing_ok=True)  # a plugin removes its own, too


if __name__ == "__main__":
    _clear(Path(sys.argv[1]))
    asyncio.run(_serve(Path(sys.argv[1])))
