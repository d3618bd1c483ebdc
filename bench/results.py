"""The figures of a benchmark, compared with their goals, as a table or as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADINGS = ("", "unit", "daemon min", "median", "max", "baseline", "ratio", "goal", "")
_GOALS = {"median": "{}", "max": "max {}", "ratio": "{}x"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Samples of one quantity, of the daemon and of the baseline."""

    what: str
    unit: str
    daemon: Sequence[float]
    baseline: Sequence[float] = ()
    goal: float | None = None
    """The highest acceptable figure of the kind that ``judged_by`` names."""
    judged_by: Literal["median", "max", "ratio"] = "median"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The daemon's median as a multiple of the baseline's, if that is above zero."""
        baseline = statistics.median(self.baseline) if self.baseline else 0.0
        return statistics.median(self.daemon) / baseline if baseline > 0 else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal, or without the ratio that it is about."""
        value = {
            "median": statistics.median(self.daemon),
            "max": max(self.daemon),
            "ratio": self.ratio,
        }[self.judged_by]
        return None if self.goal is None or value is None else value <= self.goal

    def as_json(self) -> dict[str, object]:
        """Return everything but the single samples, for ``-o json``."""
        return {
            "what": self.what,
            "unit": self.unit,
            "daemon": _summary(self.daemon),
            "baseline": _summary(self.baseline) if self.baseline else None,
            "ratio": self.ratio,
            "goal": self.goal,
            "judgedBy": self.judged_by,
            "met": self.met,
            "note": self.note,
        }


def latencies(
    what: str,
    daemon: Sequence[float],
    baseline: Sequence[float],
    *,
    p50_goal: float | None = None,
    p99_goal: float | None = None,
) -> list[Result]:
    """Return a result with all latencies and one with their 99th percentile, in milliseconds."""
    p99 = [[percentile(samples, 0.99)] for samples in (daemon, baseline)]
    return [
        Result(what=f"{what}, p50", unit="ms", daemon=daemon, baseline=baseline, goal=p50_goal),
        Result(what=f"{what}, p99", unit="ms", daemon=p99[0], baseline=p99[1], goal=p99_goal),
    ]


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that is at least as large as this share of all samples."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(results: Sequence[Result]) -> str:
    """Return the results as aligned columns, with the notes below them."""
    rows = [_HEADINGS, *(_row(one) for one in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *(f"{one.what}: {one.note}" for one in results if one.note)])


def _row(result: Result) -> tuple[str, ...]:
    summary = _summary(result.daemon)
    baseline = _figure(statistics.median(result.baseline)) if result.baseline else "-"
    goal = "-" if result.goal is None else _GOALS[result.judged_by].format(_figure(result.goal))
    return (
        result.what,
        result.unit,
        *(_figure(summary[key]) for key in ("min", "median", "max")),
        baseline,
        "-" if result.ratio is None else f"{result.ratio:.2f}x",
        goal,
        {None: "", True: "met", False: "MISSED"}[result.met],
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
