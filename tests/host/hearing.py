"""The kernel's events, made and written down."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.host.uevents import Uevents, open_monitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.host.uevents import Monitor, Uevent

NULL = "/sys/devices/virtual/mem/null"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the kernel tell events")


class Heard:
    """Uevents that are written down."""

    def __init__(self, open_monitor: Callable[[], Monitor] = open_monitor) -> None:
        self.all: list[Uevent | None] = []
        self.added = asyncio.Event()
        self.uevents = Uevents(self._changed, open_monitor=open_monitor)

    def _changed(self, event: Uevent | None) -> None:
        self.all.append(event)
        self.added.set()

    def pairs(self, *syspaths: str) -> list[tuple[str, str]]:
        """What was told of these; other tests may plug devices at the same time."""
        return [
            (event.action, event.syspath)
            for event in self.all
            if event is not None and event.syspath in syspaths
        ]

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not reached():
                self.added.clear()
                await self.added.wait()


def few() -> Monitor:
    """Open a monitor that loses what is not read soon: its queue has the least size there is."""
    return open_monitor(buffer_bytes=1)


def tell(action: str = "change", device: str = NULL) -> None:
    """Let the kernel tell an event once more."""
    Path(device, "uevent").write_text(action)
