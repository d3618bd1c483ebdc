"""Programs of probes and hooks on a mount that hangs: one resource waits, nothing else."""

from __future__ import annotations

from asyncio import TaskGroup
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.process.run import Commands
from genericdp.simulator.pods import Container, Pod

from tests.hanging import hanging_mount
from tests.process.scripts import ENV
from tests.world import resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.world import Daemon, World

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


def resources(**keys: Any) -> list[dict[str, object]]:
    return [resource(NAME, "/dev/ttyUSB*", **keys), resource(OTHER, "/dev/ttyACM*")]


def hooked(check: Path, when: str) -> list[dict[str, object]]:
    return resources(hooks={when: {"exec": {"command": [str(check)]}, "timeoutSeconds": 1}})


async def answers(world: World, daemon: Daemon) -> None:
    """Have the daemon answer, and serve its other resource."""
    assert (await daemon.get("/livez"))[0] == 200
    await world.container("other-pod", other=1)


@pytest.fixture
def plugged(world: World) -> World:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    return world


async def test_a_probe_that_hangs_concerns_its_device(plugged: World, check: Path) -> None:
    probe = {"exec": {"command": [str(check)]}, "timeoutSeconds": 1, "periodSeconds": 1}
    async with plugged.serving(*resources(health=[probe])) as daemon:
        await daemon.shows(NAME, lambda found: HANGS in str(found["devices"]))
        await answers(plugged, daemon)


async def test_an_allocate_hook_that_hangs_concerns_its_pod(plugged: World, check: Path) -> None:
    async with plugged.serving(*hooked(check, "allocate")) as daemon, TaskGroup() as tasks:
        await plugged.listed(NAME, "ttyUSB0")
        refusal = tasks.create_task(plugged.refusal(serial=1))
        await answers(plugged, daemon)
        assert f"its allocate hook {check} {HANGS}" in await refusal


async def test_a_pre_start_hook_that_hangs_concerns_its_pod(plugged: World, check: Path) -> None:
    container = Container(name="main", limits={NAME: 1})
    pod = Pod(uid="pod", containers=(container,))
    async with plugged.serving(*hooked(check, "preStart")) as daemon, TaskGroup() as tasks:
        await plugged.listed(NAME, "ttyUSB0")
        assert (await plugged.kubelet.admit(pod)).admitted
        start = tasks.create_task(plugged.kubelet.start_container(pod, container))
        await answers(plugged, daemon)
        assert f"its preStart hook {check} {HANGS}" in (await start).message
