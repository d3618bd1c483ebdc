"""What the daemon holds when all is as in the beginning: it must be the same again and again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.soak.invariants import Violation, growth, leftover

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.soak.daemon import Daemon
    from tests.soak.figures import Figures

_CALM_SECONDS = 8.0
"""By then what is under way (a probe, a call, a second of farewell) has ended."""
_SAMPLE_SECONDS = 1.0
_MOST_MORE_THREADS = 4


class Resting:
    """Compares each rest after the warm-up with the first one."""

    def __init__(self, warm_up_seconds: float) -> None:
        self._warm_at = time.monotonic() + warm_up_seconds
        self._reference: dict[str, Mapping[str, int]] | None = None
        self._samples: list[tuple[float, float]] = []
        self._threads: list[int] = []
        self.rests = 0

    async def sample(self, daemon: Daemon) -> None:
        """Take samples of memory for ever, once warm."""
        while True:
            now = time.monotonic()
            if now >= self._warm_at:
                self._samples.append((now, daemon.resident()))
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def look(self, daemon: Daemon) -> None:
        """Count what there is; raises Violation if it does not come back to what it was."""
        if self._reference is None:
            if time.monotonic() >= self._warm_at:
                await asyncio.sleep(_CALM_SECONDS / 2)
                self._reference = await self._counted(daemon)
            return
        until = time.monotonic() + _CALM_SECONDS
        while True:
            now = await self._counted(daemon)
            wrong = {what: leftover(self._reference[what], now[what]) for what in now}
            wrong = {what: more for what, more in wrong.items() if more}
            if not wrong:
                break
            if time.monotonic() > until:
                raise Violation(f"not what it was at the first rest: {wrong}")
            await asyncio.sleep(0.2)
        self.rests += 1
        self._threads.append(daemon.threads())

    def conclude(self, figures: Figures) -> None:
        """Enter the figures; raises Violation if memory has a slope."""
        figures.growth = growth(self._samples)
        if self._reference is not None:
            for what, counts in self._reference.items():
                total = sum(counts.values())
                figures.lines[what] = f"{total} at each of {self.rests} rests after the first"
        if self._threads:
            figures.lines["threads"] = f"{min(self._threads)} to {max(self._threads)}"
        if figures.growth is not None and figures.growth.is_slope:
            raise Violation(f"memory grows: {figures.growth.total:+.2f} MB by its slope")

    async def _counted(self, daemon: Daemon) -> dict[str, Mapping[str, int]]:
        descriptors = daemon.descriptors()
        descriptors.pop("pooled by gRPC", None)
        return {"descriptors": descriptors, "asyncio tasks": Counter(await daemon.tasks())}
