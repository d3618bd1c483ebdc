"""A list of devices is as long as a kubelet takes it at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.world import World, resource

if TYPE_CHECKING:
    from pathlib import Path

NAME = "example.com/serial"
MAX_BYTES = 4 * 1024 * 1024
SHARES = 10_000
DEVICES = 20


async def test_a_list_of_more_than_fits_never_passes_four_mebibytes_and_uses_them(
    short_folder: Path,
) -> None:
    """K11: what counts is the size with all devices Unhealthy."""
    world = World(short_folder)
    async with world.kubelet:
        for number in range(DEVICES):
            world.host.plug(f"ttyUSB{number}")
        async with world.serving(resource(NAME, "/dev/ttyUSB*", replicas=SHARES)):
            await world.listed_once(NAME)
            (path,) = world.kubelet.paths(NAME)
            options = [("grpc.max_receive_message_length", -1)]
            async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
                stream = rpc.DevicePluginStub(channel).ListAndWatch(api.Empty())
                answer = await stream.read()
                stream.cancel()
    assert isinstance(answer, api.ListAndWatchResponse)
    for share in answer.devices:
        share.health = "Unhealthy"
    size, count = answer.ByteSize(), len(answer.devices) // SHARES
    assert 0 < count < DEVICES
    assert MAX_BYTES - size / count < size <= MAX_BYTES
