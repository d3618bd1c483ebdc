"""Directories and records of udev that come, go and change are followed by events alone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.world import World, resource

NAME = "example.com/x"
IN_TIME_SECONDS = 20
"""The next full scan comes only after 30 s."""


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    world.host.plug("ttyUSB0")
    subsystem = world.host.directory / "sys/devices/virtual/tty/ttyUSB0/subsystem"
    subsystem.symlink_to("../../../../class/tty")
    async with asyncio.timeout(IN_TIME_SECONDS):
        yield world


def link(path: Path, target: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


async def test_directories_that_come_and_go_are_followed_by_events_alone(world: World) -> None:
    """D3: a plugged device is never seen."""
    world.host.plug("ttyUSB1")
    dev = world.host.directory / "dev"
    followed = resource(NAME, "/dev/new/by-id/*", forgetAfterSeconds=0)
    async with world.serving(followed) as daemon:
        await daemon.registered(NAME)
        link(dev / "new/by-id/a", "../../ttyUSB0")
        await world.listed(NAME, "new_by-id_a")
        shutil.rmtree(dev / "new")
        await world.listed(NAME)
        link(dev / "other/by-id/b", "../../ttyUSB1")
        (dev / "other").rename(dev / "new")
        await world.listed(NAME, "new_by-id_b")
        link(dev / "third/c", "../../ttyUSB0")
        (dev / "new/by-id").rename(dev / "old")
        (dev / "third").rename(dev / "new/by-id")
        await world.listed(NAME, "new_by-id_c")


UNKNOWN = resource("example.com/unknown", "/dev/ttyUSB*", forgetAfterSeconds=0)


def record(world: World, serial: str) -> Path:
    """Write the record of the device as udev does: under a hidden name first."""
    hidden = world.host.write("/run/udev/data/.#c188:0Xy12z", f"E:ID_SERIAL={serial}\n")
    return hidden.rename(hidden.with_name("c188:0"))


def recorded(serial: str) -> dict[str, object]:
    """A resource of the adapter with this serial number, which udev knows and not the kernel."""
    properties = {"ID_SERIAL": serial}
    match = {"path": "/dev/ttyUSB*", "hardware": {"udev": {"properties": properties}}}
    return {"name": f"example.com/{serial}", "match": [match], "forgetAfterSeconds": 0}


RESOURCES = (*map(recorded, "abc"), UNKNOWN)


async def is_of(world: World, kind: str) -> None:
    """Wait until the device is one of this resource, and of no other one."""
    for name in "a", "b", "c", "unknown":
        await world.listed(f"example.com/{name}", *(["ttyUSB0"] if name == kind else []))


async def test_a_record_that_is_written_changed_or_removed_is_told(world: World) -> None:
    world.host.write("/run/udev/data/c1:3", "E:ID_SERIAL=of-another\n")
    file = record(world, "a")
    async with world.serving(*RESOURCES):
        await is_of(world, "a")
        record(world, "b")
        await is_of(world, "b")
        file.unlink()
        await is_of(world, "unknown")


@pytest.mark.parametrize("there", ["", "run", "run/udev"])
async def test_a_udevd_that_starts_later_is_waited_for(there: str, world: World) -> None:
    (world.host.directory / there).mkdir(exist_ok=True, parents=True)
    async with world.serving(*RESOURCES):
        await is_of(world, "")  # without records it may be of any
        record(world, "a")
        await is_of(world, "a")
