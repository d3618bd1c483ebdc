"""Requests to a plugin's socket that are not what their method takes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.host.root import Root
from genericdp.kubelet.server import SERVICE, listening
from genericdp.kubelet.servicer import Servicer
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from tests.health.probed_devices import no_hooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

UNKNOWN_FIELD = b"\xa2\x06\x01x"
MALFORMED = {
    "no-field": b"\x00\x00",
    "number-without-end": b"\x08" + b"\xff" * 10,
    "cut": b"\x0a\x05ab",
}


@asynccontextmanager
async def calling(folder: Path) -> AsyncIterator[grpc.aio.Channel]:
    """Connect to the socket of a resource without devices."""
    service = Servicer(
        "example.com/none", root=Root(folder), look_again=lambda: None, run_hooks=no_hooks()
    )
    socket = folder / "own.sock"
    async with (
        listening(socket, service),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        yield channel


async def answer(channel: grpc.aio.Channel, method: str, request: bytes) -> bytes:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/{SERVICE}/{method}"
    )
    return await call(request, timeout=10)


async def refusal(channel: grpc.aio.Channel, method: str, request: bytes) -> str | None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(channel, method, request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return caught.value.details()


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
            said = await refusal(channel, method, request)
            assert (said or "").startswith(f"example.com/none: {message} cannot be parsed: ")
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
