"""A folder that goes between the first look at it and its watch."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tests.world import World, resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "example.com/serial"


@contextmanager
def when_logged(text: str, do: Callable[[], object]) -> Iterator[None]:
    """Do something as soon as a text is logged, before whoever logs it goes on."""
    handler, root = logging.Handler(), logging.getLogger()

    def look(record: logging.LogRecord) -> bool:
        if text in record.getMessage():
            do()
        return False

    handler.addFilter(look)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


async def test_a_folder_that_is_renamed_before_it_is_watched_is_missed_at_once(
    world: World,
) -> None:
    """The next full look comes too late: 30 s after the first, and this waits no longer."""
    world.host.plug("many/x1")
    folder = world.host.folder / "dev/many"
    gone = folder.with_name("gone")
    rename = partial(folder.rename, gone)
    async with world.serving(resource(NAME, "/dev/many/*")) as daemon:
        with when_logged("1 of 1 devices healthy", rename):
            await daemon.log.says("device many_x1 is Unhealthy")
        gone.rename(folder)
        await daemon.log.says("device many_x1 is Healthy again")
