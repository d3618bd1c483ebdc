"""A device that was not well and is again, by its probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.simulator.kubelet import Kubelet
from tests.world import World, serial

if TYPE_CHECKING:
    from pathlib import Path

NAME = "example.com/serial"


def world_in(folder: Path, kubelet: Kubelet) -> World:
    world = World(folder, kubelet)
    world.host.plug("ttyUSB0")
    return world


async def test_a_device_is_healthy_again_as_soon_as_its_probe_passes(short_folder: Path) -> None:
    """D6."""
    folder = short_folder / "k"
    folder.mkdir()
    async with Kubelet(folder) as kubelet:
        world = world_in(short_folder, kubelet)
        state = world.host.write("state", "bad\n")
        probe = {
            "file": {"path": "/state", "equals": "ok"},
            "periodSeconds": 1,
            "failureThreshold": 1,
        }
        async with world.serving(serial(health=[probe])) as daemon:
            await daemon.offers(NAME, ttyUSB0="file: /state is 'bad', not 'ok'")
            for _ in range(2):
                state.write_text("ok\n")
                await world.listed(NAME, "ttyUSB0")
                state.write_text("bad\n")
                await world.listed(NAME)
