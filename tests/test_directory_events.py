"""Directories and links that come, go and turn are followed by events alone."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.world import World, resource

if TYPE_CHECKING:
    import logging
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "example.com/x"
IN_TIME_SECONDS = 20
"""The next full scan comes only after 30 s."""


@asynccontextmanager
async def followed(world: World, glob: str, **keys: object) -> AsyncIterator[Path]:
    """Serve what a glob finds; give the host's /dev."""
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    async with (
        asyncio.timeout(IN_TIME_SECONDS),
        world.serving(resource(NAME, glob, forgetAfterSeconds=0, **keys)) as daemon,
    ):
        await daemon.registered(NAME)
        yield world.host.directory / "dev"


def link(path: Path, target: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


async def test_directories_that_come_and_go_are_followed_by_events_alone(world: World) -> None:
    """D3: a plugged device is never seen."""
    async with followed(world, "/dev/new/by-id/*") as dev:
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


async def test_a_directory_that_is_renamed_before_it_is_watched_is_missed_at_once(
    world: World,
) -> None:
    """The next full look comes too late: 30 s after the first, and this waits no longer."""
    world.host.plug("many/x1")
    directory = world.host.directory / "dev/many"
    gone = directory.with_name("gone")

    def rename_once_logged(record: logging.LogRecord) -> bool:
        if "1 of 1 devices healthy" in record.getMessage():
            directory.rename(gone)
        return True

    async with world.serving(resource(NAME, "/dev/many/*")) as daemon:
        daemon.log.addFilter(rename_once_logged)  # before the daemon continues
        await daemon.log.says("device many_x1 is Unhealthy")
        gone.rename(directory)
        await daemon.log.says("device many_x1 is Healthy again")
