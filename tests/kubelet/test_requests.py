"""Requests to a plugin's socket that no kubelet sends: malformed and very large ones."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.host.root import Root
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.server import SERVICE, listening
from genericdp.kubelet.servicer import Servicer
from genericdp.prepare import Gate
from tests.health.probed_devices import no_hooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MIB = 1024 * 1024
UNKNOWN_FIELD = b"\xa2\x06\x01x"
MALFORMED = {
    "no-field": b"\x00\x00",
    "number-without-end": b"\x08" + b"\xff" * 10,
    "cut": b"\x0a\x05ab",
}


@asynccontextmanager
async def calling(folder: Path) -> AsyncIterator[grpc.aio.Channel]:
    """Connect to the socket of a resource without devices."""
    root = Root(folder)
    gate = Gate("example.com/none", root=root, look_again=lambda: None, run_hooks=no_hooks())
    socket, anything = folder / "own.sock", [("grpc.max_send_message_length", -1)]
    async with (
        listening(socket, Servicer(gate)),
        grpc.aio.insecure_channel(f"unix:{socket}", options=anything) as channel,
    ):
        yield channel


async def answer(channel: grpc.aio.Channel, method: str, request: bytes) -> bytes:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/{SERVICE}/{method}"
    )
    return await call(request, timeout=10)


async def refusal(
    channel: grpc.aio.Channel, method: str, request: bytes
) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(channel, method, request)
    return caught.value.code(), caught.value.details() or ""


@pytest.mark.parametrize(
    ("method", "message", "no_utf8"),
    [
        ("Allocate", "AllocateRequest", b"\x0a\x04\x0a\x02\xff\xff"),
        ("PreStartContainer", "PreStartContainerRequest", b"\x0a\x02\xff\xff"),
    ],
)
async def test_a_malformed_request_is_an_error_and_the_next_one_is_answered(
    short_folder: Path, method: str, message: str, no_utf8: bytes
) -> None:
    async with calling(short_folder) as channel:
        for request in (*MALFORMED.values(), no_utf8):
            code, said = await refusal(channel, method, request)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert said.startswith(f"example.com/none: {message} cannot be parsed: ")
        assert await answer(channel, method, b"") == b""
        assert await answer(channel, method, UNKNOWN_FIELD) == b""


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_request_for_a_preference_has_an_empty_answer(
    short_folder: Path, request_bytes: bytes
) -> None:
    """PRF-4: an error rejects the pod."""
    async with calling(short_folder) as channel:
        assert await answer(channel, "GetPreferredAllocation", request_bytes) == b""


async def test_options_and_list_need_no_request(short_folder: Path) -> None:
    async with calling(short_folder) as channel:
        options = await answer(channel, "GetDevicePluginOptions", b"\xff")
        assert api.DevicePluginOptions.FromString(options) == api.DevicePluginOptions()
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            f"/{SERVICE}/ListAndWatch"
        )
        stream = watch(b"\xff")
        first = api.ListAndWatchResponse.FromString(await anext(aiter(stream)))
        assert first == api.ListAndWatchResponse()
        stream.cancel()


def of_size(size: int) -> bytes:
    """Return an AllocateRequest of about so many bytes, for one device of a long name."""
    one = api.ContainerAllocateRequest(devices_ids=["x" * (size - 100)])
    return api.AllocateRequest(container_requests=[one]).SerializeToString()


async def test_a_request_above_4_mib_is_refused_before_it_is_parsed(short_folder: Path) -> None:
    """Of 15 MB of empty names, one held up every resource for many seconds."""
    async with calling(short_folder) as channel:
        code, details = await refusal(channel, "Allocate", of_size(5 * MIB))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "bytes: at most 4194304 are taken" in details
        code, _ = await refusal(channel, "Allocate", of_size(17 * MIB))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        code, _ = await refusal(channel, "Allocate", of_size(4 * MIB))
        assert code is grpc.StatusCode.INVALID_ARGUMENT  # read: there is no such device


async def test_many_at_once_are_each_refused_and_the_socket_goes_on(short_folder: Path) -> None:
    async with calling(short_folder) as channel:
        large = of_size(15 * MIB)
        refusals = await asyncio.gather(*(refusal(channel, "Allocate", large) for _ in range(8)))
        assert {code for code, _ in refusals} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await answer(channel, "Allocate", b"") == b""


async def test_a_preferred_allocation_of_15_mib_is_answered(short_folder: Path) -> None:
    one = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=["x" * MIB] * 15, allocation_size=1
    )
    request = api.PreferredAllocationRequest(container_requests=[one])
    async with calling(short_folder) as channel:
        await answer(channel, "GetPreferredAllocation", request.SerializeToString())
