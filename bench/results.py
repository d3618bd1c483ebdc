"""Figures of a benchmark next to those of the peer, as a table or as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Samples of one quantity, of genericdp and of its peer."""

    what: str
    unit: str
    daemon: Sequence[float]
    peer: Sequence[float] = ()
    goal: float | None = None
    """The highest acceptable median."""
    goal_ratio: float | None = None
    """The highest acceptable multiple of the peer's median."""

    @property
    def ratio(self) -> float | None:
        """Genericdp's median as a multiple of the peer's, if that is above zero."""
        peer = median(self.peer) if self.peer else 0.0
        return median(self.daemon) / peer if peer > 0 else None

    @property
    def met(self) -> bool | None:
        """Return whether the goal is met; None without a goal or the ratio that it is about."""
        if self.goal is not None:
            return median(self.daemon) <= self.goal
        ratio = self.ratio
        return None if self.goal_ratio is None or ratio is None else ratio <= self.goal_ratio

    def as_json(self) -> dict[str, object]:
        """Return it with what follows from the samples, for ``-o json``."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def latencies(
    what: str, samples: Sequence[Sequence[float]], goal_ratio: float | None = None
) -> list[Result]:
    """Return the latencies of daemon and peer, and their 99th percentiles, in milliseconds."""
    p99 = [[percentile(side, 0.99)] for side in samples]
    return [
        Result(what=f"{what}, {name}", unit="ms", daemon=of[0], peer=of[1], goal_ratio=goal_ratio)
        for name, of in (("p50", samples), ("p99", p99))
    ]


def growth(what: str, results: Mapping[int, Result], goal: float) -> Result:
    """Return by which power of a count medians grow: 1 is linear."""
    few, many = min(results), max(results)
    times = [median(results[many].daemon) / median(results[few].daemon)]
    if results[few].peer:
        times.append(median(results[many].peer) / median(results[few].peer))
    exponents = [math.log(factor) / math.log(many / few) for factor in times]
    what = f"{what}, exponent from {few:,} to {many:,}"
    return Result(what=what, unit="", daemon=exponents[:1], peer=exponents[1:], goal=goal)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, as in "1 device" and "1,000 devices"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that is at least as large as this share of all samples."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(results: Sequence[Result], peer: str) -> str:
    """Return the results as aligned columns; ``peer`` is the name of what was measured as well."""
    headings = ("median", "unit", "genericdp", "min..max", peer, "ratio", "goal", "")
    rows = [headings, *map(_row, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _row(result: Result) -> tuple[str, ...]:
    goal = "-"
    if result.goal is not None or result.goal_ratio is not None:
        goal = f"{result.goal_ratio:.2f}x" if result.goal is None else _figure(result.goal)
    return (
        result.what,
        result.unit,
        _figure(median(result.daemon)),
        f"{_figure(min(result.daemon))}..{_figure(max(result.daemon))}",
        _figure(median(result.peer)) if result.peer else "-",
        "-" if result.ratio is None else f"{_figure(result.ratio)}x",
        goal,
        "MISSED" if result.met is False else "",
    )


def _figure(number: float) -> str:
    """Return a number with about three significant digits."""
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
