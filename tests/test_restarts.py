"""80 kubelet restarts, over both generations, graceful and crash, with changes between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation
from tests.world import World, resource, serial

if TYPE_CHECKING:
    from pathlib import Path

RESTARTS = 20
SERIAL, MODEM = "example.com/serial", "example.com/modem"


@pytest.mark.parametrize("how", ["graceful", "crash"])
@pytest.mark.parametrize("generation", list(Generation))
async def test_every_list_arrives_and_nothing_leaks(
    generation: Generation, how: str, short_folder: Path
) -> None:
    folder = short_folder / "k"
    folder.mkdir()
    world = World(short_folder, Kubelet(folder, generation=generation))
    world.host.plug("ttyACM0", major=166)
    modem = resource(MODEM, "/dev/ttyACM0", replicas=3)
    plugged: set[str] = set()
    async with world.kubelet, world.serving(serial(forgetAfterSeconds=0), modem):
        for number in range(RESTARTS):
            name = f"ttyUSB{number % 5}"
            if name in plugged:
                world.host.unplug(name)
            else:
                world.host.plug(name)
            plugged ^= {name}
            if how == "crash":
                await world.kubelet.crash()
                await world.kubelet.start()
            else:
                await world.kubelet.restart()
            await world.listed(SERIAL, *plugged)
            await world.listed(MODEM, "ttyACM0", "ttyACM0::1", "ttyACM0::2")
        await world.kubelet.wait_for(
            lambda: all(world.kubelet.streams(name) == 1 for name in (SERIAL, MODEM))
        )
        sockets = [path.name for path in folder.glob("genericdp-*.sock")]
        assert len(sockets) == 2, sockets
    assert list(folder.glob("*.sock")) == []
