"""Records of udev count as soon as they are written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.world import World, resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "example.com/serial"
UNKNOWN = resource("example.com/unknown", "/dev/ttyUSB*", forgetAfterSeconds=0)
IN_TIME_SECONDS = 20
"""The next full scan comes only after 30 s."""


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    world.host.plug("ttyUSB0")
    subsystem = world.host.directory / "sys/devices/virtual/tty/ttyUSB0/subsystem"
    subsystem.symlink_to("../../../../class/tty")
    async with asyncio.timeout(IN_TIME_SECONDS):
        yield world


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


NONE = ""
"""Has a device that may be of any: there are not records at all."""


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
        await is_of(world, NONE)
        record(world, "a")
        await is_of(world, "a")
