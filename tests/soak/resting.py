"""Resources of the daemon at rest: they must be the same again and again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tests.soak.daemon import Daemon, Held
from tests.soak.figures import Figures
from tests.soak.invariants import Violation, leftover, usual_growth

_CALM_SECONDS = 8.0
"""By then what is under way (a probe, a call, a second of farewell) has ended."""
_LOOK_SECONDS = 0.2
_WARM_UP_SECONDS = 90.0
"""Until then the allocators' pools still grow to what bursts need."""
_LOST_BY_GRPC_BYTES = 1600
"""What is never freed of a call that is canceled, by a new kubelet amid a registration
(grpc/grpc#43360). Measured over 31 calls in a run of 420 s; 800 to 1,000 bytes in a bare client."""


class Most(NamedTuple):
    """By how much something may grow, after the whole warm-up and after a shorter one."""

    late: float
    early: float


class Resting:
    """Compares each rest after the warm-up with the first one."""

    def __init__(self, seconds: float) -> None:
        self._warm_up_seconds = min(_WARM_UP_SECONDS, seconds / 3)
        self._warm_at = time.monotonic() + self._warm_up_seconds
        self._reference: dict[str, Mapping[str, int]] | None = None
        self._held: list[tuple[float, Held]] = []

    async def look(self, daemon: Daemon) -> None:
        """Count what there is; raises Violation if it does not come down to what it was."""
        if self._reference is None:
            if time.monotonic() >= self._warm_at:
                self._reference = await self._least(daemon)
            return
        until = time.monotonic() + _CALM_SECONDS
        while True:
            held = await daemon.ask()
            now = held.counts()
            wrong = {what: leftover(self._reference[what], now[what]) for what in now}
            wrong = {what: more for what, more in wrong.items() if more}
            if not wrong:
                break
            if time.monotonic() > until:
                raise Violation(f"more than at the first rest: {wrong}")
            await asyncio.sleep(_LOOK_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps
        self._held.append((time.monotonic(), held))

    async def _least(self, daemon: Daemon) -> dict[str, Mapping[str, int]]:
        """Look for a while, and give the least of each: a probe or a call comes and goes."""
        least = (await daemon.ask()).counts()
        until = time.monotonic() + _CALM_SECONDS / 2
        while time.monotonic() < until:
            await asyncio.sleep(_LOOK_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps
            now = (await daemon.ask()).counts()
            least = {what: Counter(least[what]) & Counter(now[what]) for what in least}
        return least

    def conclude(self, figures: Figures) -> None:
        """Enter the figures; raises Violation if memory has a slope."""
        for what, counts in (self._reference or {}).items():
            rests = len(self._held)
            figures.lines[what] = f"{sum(counts.values())} at each of {rests} more rests, no more"
        resident = [(at, held.resident) for at, held in self._held]
        self._conclude(figures, "MB of resident memory", resident, Most(1.0, early=3.0))
        blocks = [(at, held.blocks / self._held[0][1].blocks) for at, held in self._held]
        most = Most(0.01, early=0.03)
        self._conclude(figures, "the share of Python's blocks of memory", blocks, most)
        given_out = [
            (at, (held.given_out - _LOST_BY_GRPC_BYTES * held.canceled) / 1000)
            for at, held in self._held
            if held.given_out
        ]
        # Tables and dicts that churn grow to their final size for some minutes (in a run of 900 s
        # by 30 kB, and then no more). A leak continues in the later half of the rests.
        later = given_out[-max(3, len(given_out) // 2) :]
        if len(later) > 2:
            share = (later[-1][0] - later[0][0]) / (given_out[-1][0] - given_out[0][0])
            most = Most(40.0 * share, early=150.0 * share)
            self._conclude(figures, "kB given out by the C library, later", later, most)

    def _conclude(
        self, figures: Figures, what: str, samples: list[tuple[float, float]], most: Most
    ) -> None:
        line = usual_growth(samples)
        if line is None:
            return
        limit = most.late if self._warm_up_seconds >= _WARM_UP_SECONDS else most.early
        figures.lines[what] = (
            f"{line.first:.1f} at first, {line.total:+.3g} by the slope in {line.seconds:.0f} s"
            f" (limit {limit:+g})"
        )
        if line.total > limit:
            raise Violation(f"memory grows: {what}: {line.total:+.3g} by the slope")
