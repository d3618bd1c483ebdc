"""Resources of the daemon at rest: they must be the same again and again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from tests.soak.daemon import Daemon, Held
from tests.soak.figures import Figures
from tests.soak.invariants import (
    MOST_GROWTH_MB,
    MOST_MORE_BLOCKS,
    MOST_MORE_GIVEN_OUT_KB,
    Violation,
    growth,
    leftover,
    usual_growth,
)

_CALM_SECONDS = 8.0
"""By then what is under way (a probe, a call, a second of farewell) has ended."""
_LOOK_SECONDS = 0.2
_SAMPLE_SECONDS = 1.0
_LOST_BY_GRPC_BYTES = 1600
"""What is never freed of a call that is canceled, by a new kubelet amid a registration
(grpc/grpc#43360). Measured over 31 calls in a run of 420 s; 800 to 1,000 bytes in a bare client."""


class Resting:
    """Compares each rest after the warm-up with the first one."""

    def __init__(self, warm_up_seconds: float) -> None:
        self._warm_up_seconds = warm_up_seconds
        self._warm_at = time.monotonic() + warm_up_seconds
        self._reference: dict[str, Mapping[str, int]] | None = None
        self._samples: list[tuple[float, float]] = []
        self._threads: list[int] = []
        self._held: list[tuple[float, Held]] = []
        self.rests = 0

    async def sample(self, daemon: Daemon) -> None:
        """Take samples of memory forever, from the first rest on."""
        while True:
            if self._reference is not None:
                with suppress(OSError):  # it is ending
                    self._samples.append((time.monotonic(), daemon.resident()))
            await asyncio.sleep(_SAMPLE_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps

    async def look(self, daemon: Daemon) -> None:
        """Count what there is; raises Violation if it does not come down to what it was."""
        if self._reference is None:
            if time.monotonic() >= self._warm_at:
                self._reference = await self._least(daemon)
            return
        until = time.monotonic() + _CALM_SECONDS
        while True:
            held, now = await _counted(daemon)
            wrong = {what: leftover(self._reference[what], now[what]) for what in now}
            wrong = {what: more for what, more in wrong.items() if more}
            if not wrong:
                break
            if time.monotonic() > until:
                raise Violation(f"more than at the first rest: {wrong}")
            await asyncio.sleep(_LOOK_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps
        self.rests += 1
        self._threads.append(daemon.threads())
        self._held.append((time.monotonic(), held))

    async def _least(self, daemon: Daemon) -> dict[str, Mapping[str, int]]:
        """Look for a while, and give the least of each: a probe or a call comes and goes."""
        _, least = await _counted(daemon)
        until = time.monotonic() + _CALM_SECONDS / 2
        while time.monotonic() < until:
            await asyncio.sleep(_LOOK_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps
            _, now = await _counted(daemon)
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
        self._conclude_given_out(figures)
        line, most = growth(self._samples), MOST_GROWTH_MB.after(self._warm_up_seconds)
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
        line = usual_growth([(at, held.blocks) for at, held in self._held])
        if line is None:
            return
        share, most = line.total / line.first, MOST_MORE_BLOCKS.after(self._warm_up_seconds)
        figures.lines["Python's blocks of memory"] = (
            f"{line.first:.0f} at the first rest, {share:+.2%} by their slope in"
            f" {line.seconds:.0f} s (limit {most:+.1%})"
        )
        if share > most:
            raise Violation(f"Python's blocks of memory grow: {share:+.2%} by their slope")

    def _conclude_given_out(self, figures: Figures) -> None:
        """Do it for what the C library has given out: to gRPC, and Python's larger objects.

        Only in the later half of the rests: tables and dicts that churn grow to their final size
        for some minutes (in a run of 900 s by 30 kB, and then no more). A leak continues.
        """
        samples = [
            (at, (held.given_out - _LOST_BY_GRPC_BYTES * held.canceled) / 1000)
            for at, held in self._held
            if held.given_out
        ]
        line = usual_growth(samples[-max(3, len(samples) // 2) :])
        if line is None:
            return
        share = line.seconds / (samples[-1][0] - samples[0][0])
        most = MOST_MORE_GIVEN_OUT_KB.after(self._warm_up_seconds) * share
        figures.lines["memory given out by the C library"] = (
            f"{line.first:.0f} kB half-way, {line.total:+.1f} kB by its slope in the last"
            f" {line.seconds:.0f} s (limit {most:+.0f} kB), without what gRPC loses with each"
            f" canceled call ({self._held[-1][1].canceled} of {_LOST_BY_GRPC_BYTES} bytes)"
        )
        if line.total > most:
            raise Violation(f"what the C library has given out grows: {line.total:+.1f} kB")


async def _counted(daemon: Daemon) -> tuple[Held, dict[str, Mapping[str, int]]]:
    descriptors = daemon.descriptors()
    descriptors.pop("pooled by gRPC", None)
    held = await daemon.ask()
    return held, {"descriptors": descriptors, "asyncio tasks": held.tasks}
