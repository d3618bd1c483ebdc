"""A device that was not well and is again, by its probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.simulator.kubelet import Kubelet
from tests.world import World, serial

if TYPE_CHECKING:
    from pathlib import Path

NAME = "example.com/serial"


async def test_a_device_that_recovered_may_fail_as_often_as_before(short_folder: Path) -> None:
    """D6: it is healthy as soon as its probe passes, and then one failure is not enough."""
    folder = short_folder / "k"
    folder.mkdir()
    state, runs = short_folder / "state", short_folder / "runs"
    state.write_text("bad\n")
    command = ["/bin/sh", "-c", f"echo >> {runs}; grep -q ok {state}"]
    probe = {"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": 3}
    async with Kubelet(folder) as kubelet:
        world = World(short_folder, kubelet)
        world.host.plug("ttyUSB0")
        async with world.serving(serial(health=[probe])):
            await kubelet.wait_for(lambda: set(kubelet.devices(NAME).values()) == {"Unhealthy"})
            state.write_text("ok\n")
            await world.listed(NAME, "ttyUSB0")
            state.write_text("bad\n")
            before = len(runs.read_text())
            await kubelet.wait_for(lambda: set(kubelet.devices(NAME).values()) == {"Unhealthy"}, 30)
    # One that was under way then may have seen the change, too.
    assert len(runs.read_text()) - before >= 2
