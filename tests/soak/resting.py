"""What the daemon holds when all is as in the beginning: it must be the same again and again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.soak.invariants import (
    Violation,
    growth,
    leftover,
    most_growth,
    most_more_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.soak.daemon import Daemon
    from tests.soak.figures import Figures

_CALM_SECONDS = 8.0
"""By then what is under way (a probe, a call, a second of farewell) has ended."""
_LOOK_SECONDS = 0.2
_SAMPLE_SECONDS = 1.0


class Resting:
    """Compares each rest after the warm-up with the first one."""

    def __init__(self, warm_up_seconds: float) -> None:
        self._warm_up_seconds = warm_up_seconds
        self._warm_at = time.monotonic() + warm_up_seconds
        self._reference: dict[str, Mapping[str, int]] | None = None
        self._samples: list[tuple[float, float]] = []
        self._threads: list[int] = []
        self._latest = 0
        self._blocks: list[tuple[float, float]] = []
        self.rests = 0

    async def sample(self, daemon: Daemon) -> None:
        """Take samples of memory for ever, once warm."""
        while True:
            now = time.monotonic()
            if now >= self._warm_at:
                with suppress(OSError):  # it is ending
                    self._samples.append((now, daemon.resident()))
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def look(self, daemon: Daemon) -> None:
        """Count what there is; raises Violation if it does not come down to what it was."""
        if self._reference is None:
            if time.monotonic() >= self._warm_at:
                self._reference = await self._least(daemon)
            return
        until = time.monotonic() + _CALM_SECONDS
        while True:
            now = await self._counted(daemon)
            wrong = {what: leftover(self._reference[what], now[what]) for what in now}
            wrong = {what: more for what, more in wrong.items() if more}
            if not wrong:
                break
            if time.monotonic() > until:
                raise Violation(f"more than at the first rest: {wrong}")
            await asyncio.sleep(_LOOK_SECONDS)
        self.rests += 1
        self._threads.append(daemon.threads())
        self._blocks.append((time.monotonic(), self._latest))

    async def _least(self, daemon: Daemon) -> dict[str, Mapping[str, int]]:
        """Look for a while, and give the least of each: a probe or a call comes and goes."""
        least = await self._counted(daemon)
        until = time.monotonic() + _CALM_SECONDS / 2
        while time.monotonic() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            now = await self._counted(daemon)
            least = {what: Counter(least[what]) & Counter(now[what]) for what in least}
        return least

    def conclude(self, figures: Figures) -> None:
        """Enter the figures; raises Violation if memory has a slope."""
        if self._reference is not None:
            for what, counts in self._reference.items():
                total = sum(counts.values())
                figures.lines[what] = (
                    f"{total} at each of {self.rests} rests after the first, no more"
                )
        if self._threads:
            figures.lines["threads"] = f"{min(self._threads)} to {max(self._threads)}"
        self._conclude_blocks(figures)
        line, most = growth(self._samples), most_growth(self._warm_up_seconds)
        if line is None:
            return
        figures.lines["memory"] = (
            f"{line.first:.1f} MB after {self._warm_up_seconds:.0f} s of warm-up, slope"
            f" {line.per_minute:+.3f} MB a minute: {line.total:+.2f} MB in {line.seconds:.0f} s"
            f" ({line.samples} samples; limit {most:+.1f} MB)"
        )
        if line.total > most:
            raise Violation(f"memory grows: {line.total:+.2f} MB by its slope")

    def _conclude_blocks(self, figures: Figures) -> None:
        """Do it for the blocks that Python has: fragments and pools play no part there."""
        line = growth(self._blocks)
        if line is None:
            return
        share, most = line.total / line.first, most_more_blocks(self._warm_up_seconds)
        figures.lines["Python's blocks of memory"] = (
            f"{line.first:.0f} at the first rest, {share:+.2%} by their slope in"
            f" {line.seconds:.0f} s (limit {most:+.0%})"
        )
        if share > most:
            raise Violation(f"Python's blocks of memory grow: {share:+.2%} by their slope")

    async def _counted(self, daemon: Daemon) -> dict[str, Mapping[str, int]]:
        descriptors = daemon.descriptors()
        descriptors.pop("pooled by gRPC", None)
        tasks, self._latest = await daemon.ask()
        return {"descriptors": descriptors, "asyncio tasks": tasks}
