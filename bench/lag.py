"""How late the loop is: by how much a short sleep takes too long."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_TICK_SECONDS = 0.002


@dataclass(slots=True)
class Lag:
    """How late the loop was at worst, in milliseconds."""

    worst: float = 0.0
    samples: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        """Look forever."""
        while True:
            since = time.monotonic()
            await asyncio.sleep(_TICK_SECONDS)
            late = time.monotonic() - since - _TICK_SECONDS
            self.worst = max(self.worst, late * 1000)

    def begin(self) -> None:
        """Begin a sample."""
        self.worst = 0.0

    def end(self) -> None:
        """Take the sample."""
        self.samples.append(self.worst)


@asynccontextmanager
async def watched(*lags: Lag) -> AsyncIterator[None]:
    """Watch the running loop."""
    async with asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(one.watch()) for one in lags]
        yield
        for one in watching:
            one.cancel()
