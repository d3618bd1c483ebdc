"""What many restarts of the kubelet leave behind in a plugin: nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.settings import Generation
from tests.world import FAST, World, serial

if TYPE_CHECKING:
    from pathlib import Path

SERIAL = "example.com/serial"


@pytest.mark.parametrize("generation", list(Generation))
async def test_kubelets_that_came_and_went_make_no_later_wait_longer(
    generation: Generation, short_folder: Path
) -> None:
    """K3: after some restarts of the kubelet a broken stream is answered as soon as before them.

    Found by the soak.
    """
    world = World(short_folder, generation=generation)
    world.host.plug("ttyUSB0")
    patient = replace(FAST, last_retry=60.0)
    async with world.kubelet, world.serving(serial(), timing=patient) as daemon:
        for number in range(1, 13):
            await world.listed(SERIAL, "ttyUSB0")
            await daemon.registered(SERIAL)
            await world.kubelet.stop()
            await daemon.log.says("registering again in", times=number)
            await world.kubelet.start()
        await world.listed(SERIAL, "ttyUSB0")
        await daemon.registered(SERIAL)
        paths = world.kubelet.paths(SERIAL)
        world.kubelet.break_streams(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.paths(SERIAL) not in {(), paths})
        await world.listed(SERIAL, "ttyUSB0")


async def test_kubelets_that_are_away_for_long_are_no_work_of_another_plugin(
    short_folder: Path,
) -> None:
    """K3: three restarts within seconds said so, and each broken stream cost seconds from then on.

    Found by the soak.
    """
    world = World(short_folder)
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as daemon:
        for number in range(1, 5):
            await daemon.registered(SERIAL)
            await world.kubelet.stop()
            await daemon.log.says("registering again in", times=number)
            await asyncio.sleep(0.2)  # more than the pause, of which nothing tells the end
            await world.kubelet.start()
            await world.listed(SERIAL, "ttyUSB0")
        await daemon.registered(SERIAL)
        assert daemon.log.count("another device plugin may serve") == 0
