"""The kernel's events, made and written down."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host.events import Uevents, open_monitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import pyudev
    from genericdp.host.events import Uevent

NULL = "/sys/devices/virtual/mem/null"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the kernel show events")


class Heard:
    """Uevents that are written down."""

    def __init__(self, open_monitor: Callable[[], pyudev.Monitor]) -> None:
        self.all: list[Uevent | None] = []
        self.added = asyncio.Event()
        self.uevents = Uevents(self.add, again_seconds=0.05, open_monitor=open_monitor)

    def add(self, event: Uevent | None) -> None:
        """Take note of an event."""
        self.all.append(event)
        self.added.set()

    def pairs(self, *syspaths: str) -> list[tuple[str, str]]:
        """Return what was sent about these; other tests may plug devices at the same time."""
        return [
            (event.action, event.syspath)
            for event in self.all
            if event is not None and event.syspath in syspaths
        ]

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not reached():
                self.added.clear()
                await self.added.wait()


@contextmanager
def alone() -> Iterator[None]:
    """Let no other test, in any process, flood the kernel's queue or suffer from that meanwhile."""
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@asynccontextmanager
async def hearing(
    open_monitor: Callable[[], pyudev.Monitor] = open_monitor,
) -> AsyncIterator[Heard]:
    """Listen to the kernel until the end of the context."""
    heard = Heard(open_monitor)
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(heard.uevents.run(), name="events of the kernel")
        try:
            await heard.until(lambda: bool(heard.all))
            yield heard
        finally:
            listening.cancel()


def few() -> pyudev.Monitor:
    """Open a monitor that loses what is not read soon: its queue has the least size there is."""
    return open_monitor(buffer_bytes=1)


def tell(action: str = "change", device: str = NULL) -> None:
    """Let the kernel show an event once more."""
    Path(device, "uevent").write_text(action)
