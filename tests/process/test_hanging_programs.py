"""Programs of probes and hooks on a mount that hangs: one resource waits, nothing else."""

from __future__ import annotations

from asyncio import TaskGroup
from typing import TYPE_CHECKING

import pytest
from genericdp.process.run import Commands

from tests.hanging import hanging_mount
from tests.process.scripts import ENV
from tests.world import resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.world import World

NAME, OTHER = "example.com/serial", "example.com/other"
HANGS = "took longer than 1 s"


@pytest.fixture
def check(short_directory: Path) -> Iterator[Path]:
    """A program that cannot be started, nor be read."""
    with hanging_mount(short_directory / "gone") as gone:
        yield gone / "check"


async def test_a_program_that_hangs_ends_at_its_timeout(check: Path) -> None:
    async with Commands() as commands, TaskGroup() as tasks:
        hanging = tasks.create_task(commands.run([str(check)], ENV, timeout_seconds=1))
        assert (await commands.run(["/bin/true"], ENV, timeout_seconds=30)).ok
        assert (await hanging).reason == HANGS


async def test_a_probe_and_a_hook_that_hang_concern_their_own_devices(
    world: World, check: Path
) -> None:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    world.host.plug("ttyACM0", major=166)
    run = {"exec": {"command": [str(check)]}, "timeoutSeconds": 1}
    probed = resource("example.com/probed", "/dev/ttyUSB1", health=[{**run, "periodSeconds": 1}])
    hooked = resource(NAME, "/dev/ttyUSB0", hooks={"allocate": run})
    other = resource(OTHER, "/dev/ttyACM*")
    async with world.serving(hooked, probed, other) as daemon, TaskGroup() as tasks:
        await daemon.shows("example.com/probed", lambda found: HANGS in str(found["devices"]))
        await world.listed(NAME, "ttyUSB0")
        refusal = tasks.create_task(world.refusal(serial=1))
        assert (await daemon.get("/livez"))[0] == 200
        await world.container("other-pod", other=1)
        assert f"its allocate hook {check} {HANGS}" in await refusal
