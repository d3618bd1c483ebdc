"""Requests to a plugin's socket that are larger than any that a kubelet sends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.host.root import Root
from genericdp.kubelet.server import listening
from genericdp.kubelet.servicer import Servicer
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.health.probed_devices import no_hooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MIB = 1024 * 1024


@asynccontextmanager
async def calling(folder: Path) -> AsyncIterator[rpc.DevicePluginAsyncStub]:
    """A client of the socket of a resource without devices."""
    service = Servicer(
        "example.com/none", root=Root(folder), look_again=lambda: None, run_hooks=no_hooks()
    )
    socket, anything = folder / "own.sock", [("grpc.max_send_message_length", -1)]
    async with (
        listening(socket, service),
        grpc.aio.insecure_channel(f"unix:{socket}", options=anything) as channel,
    ):
        yield rpc.DevicePluginStub(channel)


def asking(size: int) -> api.AllocateRequest:
    """Return a request of about so many bytes, for one device of a long name."""
    return api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=["x" * (size - 100)])]
    )


async def refusal(
    client: rpc.DevicePluginAsyncStub, size: int
) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.Allocate(asking(size))
    return caught.value.code(), caught.value.details()


async def test_a_request_above_4_mib_is_refused_before_it_is_parsed(short_folder: Path) -> None:
    """Of 15 MB of empty names, one held up every resource for many seconds."""
    async with calling(short_folder) as client:
        code, details = await refusal(client, 5 * MIB)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "bytes: at most 4194304 are taken" in (details or "")
        code, _ = await refusal(client, 17 * MIB)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        code, _ = await refusal(client, 4 * MIB)
        assert code is grpc.StatusCode.INVALID_ARGUMENT  # read: there is no such device


async def test_many_at_once_are_each_refused_and_the_socket_goes_on(short_folder: Path) -> None:
    async with calling(short_folder) as client:
        refusals = await asyncio.gather(*(refusal(client, 15 * MIB) for _ in range(8)))
        assert {code for code, _ in refusals} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await client.Allocate(api.AllocateRequest()) == api.AllocateResponse()


async def test_a_preferred_allocation_of_15_mib_is_answered(short_folder: Path) -> None:
    names = ["x" * MIB] * 15
    request = api.PreferredAllocationRequest(
        container_requests=[
            api.ContainerPreferredAllocationRequest(available_deviceIDs=names, allocation_size=1)
        ]
    )
    async with calling(short_folder) as client:
        await client.GetPreferredAllocation(request)
