"""What many restarts of the kubelet leave behind in a plugin: nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation
from tests.world import FAST, World, serial

if TYPE_CHECKING:
    from pathlib import Path

SERIAL = "example.com/serial"


@pytest.mark.parametrize("generation", list(Generation))
async def test_kubelets_that_came_and_went_make_no_later_wait_longer(
    generation: Generation, short_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: after some restarts of the kubelet a broken stream is answered as soon as before them.

    Found by the soak. Brought back by ``pass`` instead of ``self._contest = Contest()`` after the
    wait in ``Plugin._wait``: each wait doubles then, and is 10 s at least after a dozen.
    """
    folder = short_folder / "k"
    folder.mkdir()
    world = World(short_folder, Kubelet(folder, generation=generation))
    world.host.plug("ttyUSB0")
    patient = replace(FAST, last_retry=60.0)
    async with world.kubelet, world.serving(serial(), timing=patient) as supervisor:
        for number in range(1, 13):
            await world.listed(SERIAL, "ttyUSB0")
            await world.active(supervisor, SERIAL)
            await world.kubelet.stop()
            while caplog.text.count("registering again in") < number:
                await asyncio.sleep(0.005)  # until it waits for another kubelet
            await world.kubelet.start()
        await world.listed(SERIAL, "ttyUSB0")
        await world.active(supervisor, SERIAL)
        paths = world.kubelet.paths(SERIAL)
        world.kubelet.break_streams(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.paths(SERIAL) not in {(), paths}, 10)
        await world.listed(SERIAL, "ttyUSB0")
