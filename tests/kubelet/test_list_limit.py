"""A list of devices is as long as a kubelet takes it at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
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
    """K11: what counts is the size with all devices Unhealthy; the rest is not offered and told."""
    world = World(short_folder)
    async with world.kubelet:
        for number in range(DEVICES):
            world.host.plug(f"ttyUSB{number}")
        many = resource(NAME, "/dev/ttyUSB*", replicas=SHARES)
        async with world.serving(many) as daemon:
            await world.listed_once(NAME)
            total = DEVICES * SHARES
            await daemon.log.says(f"of {total} devices, shares counted, fit into the {MAX_BYTES}")
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
    warnings = [line for line in daemon.log.lines if line.startswith("warning")]
    left_out = DEVICES - count
    assert warnings == [f"warning {NAME}: list full: left out are {left_out} of the devices"]
    assert world.kubelet.observed.registrations[NAME] == 1
