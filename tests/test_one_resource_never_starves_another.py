"""One resource's probes and hooks never delay those of another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genericdp.simulator.pods import Container, Pod

from tests.polling import poll_until
from tests.world import World, resource

if TYPE_CHECKING:
    from pathlib import Path

SERIAL = "example.com/serial"


class Hanging:
    """A command that says that it has begun, and hangs."""

    def __init__(self, directory: Path) -> None:
        self._begun = directory / "begun"
        self.command = ["/bin/sh", "-c", f"echo >> {self._begun}; exec sleep 60"]

    async def has_begun(self, times: int) -> None:
        self._begun.touch()
        await poll_until(lambda: self._begun.stat().st_size >= times)


async def test_an_allocate_hook_does_not_wait_for_hanging_pre_start_hooks(world: World) -> None:
    """32 of them made it miss its 9.5 s, and the pod was rejected for good."""
    many, kubelet, hanging = "example.com/many", world.kubelet, Hanging(world.directory)
    container = Container(name="main", limits={many: 40})
    slow = Pod(uid="slow", containers=(container,))
    for number in range(40):
        world.host.plug(f"ttyACM{number}", major=166)
    world.host.plug("ttyUSB0")
    hangs = {"preStart": {"exec": {"command": hanging.command}, "timeoutSeconds": 25}}
    works = {"allocate": {"exec": {"command": ["/bin/true"]}}}
    async with (
        world.serving(
            resource(many, "/dev/ttyACM*", hooks=hangs),
            resource(SERIAL, "/dev/ttyUSB*", hooks=works),
        ),
        asyncio.TaskGroup() as tasks,
    ):
        await kubelet.wait_for(lambda: kubelet.allocatable(many) == 40)
        assert (await kubelet.admit(slow)).admitted
        start = tasks.create_task(kubelet.start_container(slow, container))
        await hanging.has_begun(32)
        await world.container("quick", serial=1)
        start.cancel()
