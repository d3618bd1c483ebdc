"""What is printed: one line for each thing that is measured, beside the floor and the goal."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """The samples of both sides, taken in turns."""

    what: str
    unit: str
    daemon: tuple[float, ...]
    baseline: tuple[float, ...] = ()
    goal: float | None = None
    """At most so much; compared with ``value``."""
    worst: bool = False
    """Compare the largest sample with the goal, not the median."""
    relative: bool = False
    """Compare the medians' ratio with the goal, whether it is shown or not."""
    beside: str = "floor"
    """What the baseline is."""
    comparable: bool = True
    """Whether another run would give the same ratio: not for a tail, nor for a coarse figure."""
    note: str = ""

    @property
    def value(self) -> float:
        """What is compared with the goal."""
        if self.relative:
            return self._quotient or 0.0
        return max(self.daemon) if self.worst else statistics.median(self.daemon)

    @property
    def ratio(self) -> float | None:
        """The daemon's median as a multiple of the baseline's, where that means something."""
        return self._quotient if self.comparable else None

    @property
    def _quotient(self) -> float | None:
        floor = statistics.median(self.baseline) if self.baseline else 0.0
        return statistics.median(self.daemon) / floor if floor > 0 else None

    @property
    def judged(self) -> str:
        """What of the samples is compared with the goal."""
        if self.relative:
            return "ratio"
        return "max" if self.worst else "median"

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        return None if self.goal is None else self.value <= self.goal

    def as_json(self) -> dict[str, object]:
        """Give everything that is known, the samples too."""
        return {
            "what": self.what,
            "unit": self.unit,
            "daemon": _summary(self.daemon),
            "baseline": _summary(self.baseline),
            "beside": self.beside if self.baseline else None,
            "ratio": self.ratio,
            "goal": self.goal,
            "comparedWithGoal": self.judged,
            "met": self.met,
            "note": self.note,
        }


def _summary(samples: tuple[float, ...]) -> dict[str, object] | None:
    if not samples:
        return None
    return {
        "min": min(samples),
        "median": statistics.median(samples),
        "max": max(samples),
        "samples": list(samples),
    }


def percentile(samples: Sequence[float], share: float) -> float:
    """Give the smallest sample that at least this share of all does not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


HEAD = ("", "unit", "daemon min", "median", "max", "beside it", "ratio", "goal", "")
_SUFFIXES = {"median": "", "max": " max", "ratio": "x"}


def table(lines: Sequence[Line]) -> str:
    """Lay the lines out for a person."""
    notes = [f"{line.what}: {line.note}" for line in lines if line.note]
    return "\n".join([*columns([HEAD, *(_row(line) for line in lines)], texts=2), *notes])


def columns(rows: Sequence[Sequence[str]], *, texts: int) -> list[str]:
    """Align the cells of each column: the first ``texts`` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < texts else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _row(line: Line) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "MISSED"}[line.met]
    return (
        line.what,
        line.unit,
        *(figure(n) for n in (min(line.daemon), statistics.median(line.daemon), max(line.daemon))),
        f"{line.beside} {figure(statistics.median(line.baseline))}" if line.baseline else "-",
        "-" if line.ratio is None else f"{line.ratio:.2f}x",
        "-" if line.goal is None else f"{figure(line.goal)}{_SUFFIXES[line.judged]}",
        verdict,
    )


def figure(number: float) -> str:
    """Round to what a person wants to know."""
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
