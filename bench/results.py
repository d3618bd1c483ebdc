"""Figures of a benchmark next to those of the peer, as a table or as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

_GOALS = {"median": "{}", "ratio": "{}x"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Samples of one quantity, of genericdp and of its peer."""

    what: str
    unit: str
    daemon: Sequence[float]
    peer: Sequence[float] = ()
    goal: float | None = None
    """The highest acceptable figure of the kind that ``judged_by`` names."""
    judged_by: Literal["median", "ratio"] = "median"

    @property
    def ratio(self) -> float | None:
        """Genericdp's median as a multiple of the peer's, if that is above zero."""
        peer = statistics.median(self.peer) if self.peer else 0.0
        return statistics.median(self.daemon) / peer if peer > 0 else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal, or without the ratio that it is about."""
        value = self.ratio if self.judged_by == "ratio" else statistics.median(self.daemon)
        return None if self.goal is None or value is None else value <= self.goal

    def as_json(self) -> dict[str, object]:
        """Return everything but the single samples, for ``-o json``."""
        return {
            "what": self.what,
            "unit": self.unit,
            "daemon": _summary(self.daemon),
            "peer": _summary(self.peer) if self.peer else None,
            "ratio": self.ratio,
            "goal": self.goal,
            "judgedBy": self.judged_by,
            "met": self.met,
        }


def latencies(
    what: str,
    daemon: Sequence[float],
    peer: Sequence[float],
    *,
    p50_goal: float | None = None,
    p99_goal: float | None = None,
) -> list[Result]:
    """Return a result with all latencies and one with their 99th percentile, in milliseconds."""
    p99 = [[percentile(samples, 0.99)] for samples in (daemon, peer)]
    return [
        Result(what=f"{what}, p50", unit="ms", daemon=daemon, peer=peer, goal=p50_goal),
        Result(what=f"{what}, p99", unit="ms", daemon=p99[0], peer=p99[1], goal=p99_goal),
    ]


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
    rows = [headings, *(_row(one) for one in results)]
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
    summary = _summary(result.daemon)
    peer = _figure(statistics.median(result.peer)) if result.peer else "-"
    goal = "-" if result.goal is None else _GOALS[result.judged_by].format(_figure(result.goal))
    return (
        result.what,
        result.unit,
        _figure(summary["median"]),
        f"{_figure(summary['min'])}..{_figure(summary['max'])}",
        peer,
        "-" if result.ratio is None else f"{_figure(result.ratio)}x",
        goal,
        "MISSED" if result.met is False else "",
    )


def _summary(samples: Sequence[float]) -> dict[str, float]:
    return {
        "min": min(samples),
        "median": statistics.median(samples),
        "max": max(samples),
        "count": len(samples),
    }


def _figure(number: float) -> str:
    """Return a number with about three significant digits."""
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
