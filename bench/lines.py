"""What is printed: one line for each thing that is measured, beside the floor and the goal."""

from __future__ import annotations

import statistics
from dataclasses import dataclass


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
    note: str = ""

    @property
    def value(self) -> float:
        """What is compared with the goal."""
        return max(self.daemon) if self.worst else statistics.median(self.daemon)

    @property
    def ratio(self) -> float | None:
        """The daemon's median as a multiple of the floor's."""
        floor = statistics.median(self.baseline) if self.baseline else 0.0
        return statistics.median(self.daemon) / floor if floor > 0 else None

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
            "ratio": self.ratio,
            "goal": self.goal,
            "comparedWithGoal": "max" if self.worst else "median",
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


def percentile(samples: list[float], share: float) -> float:
    """Give the smallest sample that at least this share of all does not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


HEAD = ("", "unit", "daemon min", "median", "max", "floor median", "ratio", "goal", "")


def table(lines: list[Line]) -> str:
    """Lay the lines out for a person."""
    rows = [HEAD, *(_row(line) for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    text = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    text += [f"{line.what}: {line.note}" for line in lines if line.note]
    return "\n".join(text)


def _row(line: Line) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "MISSED"}[line.met]
    return (
        line.what,
        line.unit,
        *(_figure(n) for n in (min(line.daemon), statistics.median(line.daemon), max(line.daemon))),
        _figure(statistics.median(line.baseline)) if line.baseline else "-",
        "-" if line.ratio is None else f"{line.ratio:.1f}x",
        "-" if line.goal is None else f"{_figure(line.goal)}{' max' if line.worst else ''}",
        verdict,
    )


def _figure(number: float) -> str:
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
