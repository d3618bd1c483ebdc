"""What udev finds out about a device is told as soon as it is recorded."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.world import World, resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "example.com/serial"
SERIAL = resource(NAME, "/dev/ttyUSB*", id="$(property.ID_SERIAL:-unknown)", forgetAfterSeconds=0)
IN_TIME_SECONDS = 20
"""The next look at everything comes only after 30 s."""


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    world.host.plug("ttyUSB0")
    subsystem = world.host.folder / "sys/devices/virtual/tty/ttyUSB0/subsystem"
    subsystem.symlink_to("../../../../class/tty")
    async with asyncio.timeout(IN_TIME_SECONDS):
        yield world


def record(world: World, serial: str) -> Path:
    """Write the record of the device as udev does: under a hidden name first."""
    hidden = world.host.write("/run/udev/data/.#c188:0Xy12z", f"E:ID_SERIAL={serial}\n")
    return hidden.rename(hidden.with_name("c188:0"))


async def test_a_record_that_is_written_changed_or_removed_is_told(world: World) -> None:
    file = record(world, "A")
    async with world.serving(SERIAL):
        await world.listed(NAME, "A")
        record(world, "B")
        await world.listed(NAME, "B")
        file.unlink()
        await world.listed(NAME, "unknown")


@pytest.mark.parametrize("there", ["", "run", "run/udev"])
async def test_a_udevd_that_starts_later_is_waited_for(there: str, world: World) -> None:
    (world.host.folder / there).mkdir(exist_ok=True, parents=True)
    async with world.serving(SERIAL):
        await world.listed(NAME, "unknown")
        record(world, "A")
        await world.listed(NAME, "A")


async def test_a_database_that_is_moved_away_or_deleted_is_replaced(world: World) -> None:
    folder = record(world, "A").parent
    async with world.serving(SERIAL):
        await world.listed(NAME, "A")
        folder.rename(folder.with_name("away"))
        await world.listed(NAME, "unknown")
        record(world, "B")
        await world.listed(NAME, "B")
        shutil.rmtree(world.host.folder / "run")
        await world.listed(NAME, "unknown")
        record(world, "C")
        await world.listed(NAME, "C")
