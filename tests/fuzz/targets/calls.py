"""Calls of a hostile kubelet, as bytes over a real socket: an answer or a declared error."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import grpc
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.server import SERVICE, listening
from genericdp.kubelet.servicer import Servicer
from genericdp.model import Preference
from genericdp.prepare import Gate

from tests.health.probed_devices import no_hooks
from tests.modelled import Host, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

NAME = "example.com/serial"
METHODS = (
    "Allocate",
    "GetPreferredAllocation",
    "PreStartContainer",
    "GetDevicePluginOptions",
    "ListAndWatch",
    "Nothing",
)
DECLARED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
}
WORDS = (
    *(b"\x00", b"\x01", b"\x02", b"\n", b"\x12", b"\x18", b"ttyUSB0", b"ttyUSB1", b"::1", b"::"),
    *(b"\x0a\x09\x0a\x07ttyUSB0", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80\x01"),
    *(
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\xed\xa0\x80",
        b"::-1",
        b"::00",
        b"::\xd9\xa1",
    ),
)


def seeds() -> Iterator[bytes]:
    ids = ["ttyUSB0", "ttyUSB1::1", "ttyUSB1"]
    request = api.ContainerAllocateRequest(devices_ids=ids)
    yield b"\0" + api.AllocateRequest(container_requests=[request, request]).SerializeToString()
    yield b"\0" + api.AllocateRequest().SerializeToString()
    wish = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=ids, must_include_deviceIDs=ids[:1], allocation_size=2
    )
    several = api.PreferredAllocationRequest(container_requests=[wish, wish])
    yield b"\1" + several.SerializeToString()
    yield b"\2" + api.PreStartContainerRequest(devices_ids=ids).SerializeToString()
    yield from (bytes([method, 0]) for method in range(3, len(METHODS)))


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        _, channel = runner.run(stack.enter_async_context(calling()))
        try:
            yield lambda data: runner.run(_run(data, channel))
        finally:
            runner.run(stack.aclose())


@asynccontextmanager
async def calling() -> AsyncIterator[tuple[Path, grpc.aio.Channel]]:
    """A resource with three devices that serves: its socket, and a channel to that."""
    with TemporaryDirectory() as directory:
        host = Host(Path(directory) / "host")
        for name in ("ttyUSB0", "ttyUSB1", "ttyUSB2"):
            host.plug(name)
        resource = serial(replicas=2)
        offer = decide([resource], HostCache(host.root), node_name="n", previous={}, now=0.0).lists[
            NAME
        ]
        gate = Gate(NAME, root=host.root, look_again=lambda: None, run_hooks=no_hooks())
        service = Servicer(gate, prefer=Preference.CLOSEST, replicas=2, pre_start=True)
        service.set_devices(offer)
        socket = Path(directory) / "s"
        async with (
            listening(socket, service),
            grpc.aio.insecure_channel(f"unix:{socket}") as channel,
        ):
            yield socket, channel


async def _run(data: bytes, channel: grpc.aio.Channel) -> None:
    method = METHODS[data[0] % len(METHODS)] if data else METHODS[0]
    if method == "ListAndWatch":
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            f"/{SERVICE}/{method}"
        )
        stream = watch(data[1:])
        api.ListAndWatchResponse.FromString(await anext(aiter(stream)))
        stream.cancel()
        return
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/{SERVICE}/{method}"
    )
    try:
        answer = await call(data[1:], timeout=20)
    except grpc.aio.AioRpcError as error:
        expected = {grpc.StatusCode.UNIMPLEMENTED} if method == "Nothing" else DECLARED
        assert error.code() in expected, f"{method}: {error.code()}: {error.details()}"
        # An error of this call would reject the pod (PRF-4).
        assert method not in {"GetPreferredAllocation", "GetDevicePluginOptions"}, error.details()
        return
    if method == "Allocate":
        asked = api.AllocateRequest.FromString(data[1:])
        given = api.AllocateResponse.FromString(answer)
        assert len(given.container_responses) == len(asked.container_requests)
    elif method == "GetPreferredAllocation" and answer:
        wishes = api.PreferredAllocationRequest.FromString(data[1:]).container_requests
        chosen = api.PreferredAllocationResponse.FromString(answer).container_responses
        assert len(chosen) == len(wishes)
        for wish, choice in zip(wishes, chosen, strict=True):
            assert len(choice.deviceIDs) <= max(wish.allocation_size, 0)
            assert {*choice.deviceIDs} <= {*wish.available_deviceIDs, *wish.must_include_deviceIDs}
