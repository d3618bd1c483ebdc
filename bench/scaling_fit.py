"""How a cost grows with a size: pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import isclose, log
from typing import TYPE_CHECKING

from bench.lines import columns, figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_SLOPE = 1.1
"""A slope between two sizes that is more than this is worse than linear."""
MOST_EXPONENT = 1.2
"""As much for what is left without the constant part: a difference of two figures is less sure."""
_LEAST_GROWTH = 0.5
"""Where the middle size costs less than so much more than the smallest, there is nothing to fit."""
_LEAST_MORE = 0.05
"""Nor where the largest costs hardly more than the middle one."""


UNITS = {
    "passes": "ms CPU",
    "answers": "ms CPU",
    "process": "ms CPU",
    "waits": "ms",
    "memory": "MB",
    "bytes": "bytes",
}
"""Of each chart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """What something costs at each size."""

    axis: str
    """What grows: ``resources``, ``devices``, ``sysfs``."""
    chart: str
    """Of ``UNITS``."""
    what: str
    costs: Mapping[int, float]
    """By size, the smallest first; each is more than zero."""

    @property
    def unit(self) -> str:
        """Give what the costs are counted in."""
        return UNITS[self.chart]

    @property
    def slopes(self) -> tuple[float, ...]:
        """Give the slope of the logarithm of the cost over that of the size, between neighbours."""
        points = pairwise(self.costs.items())
        return tuple(log(after / before) / log(n / m) for (m, before), (n, after) in points)

    @property
    def exponent(self) -> float | None:
        """Give k of cost = a + b·size^k through the last three sizes, each the same times the last.

        None where the cost hardly grows up to the middle one: it is all constant, or noise.
        """
        if len(self.costs) < 3:
            return None
        (m, first), (n, middle), (o, last) = list(self.costs.items())[-3:]
        if not isclose(n / m, o / n):
            return None
        if middle - first < _LEAST_GROWTH * first or last - middle < _LEAST_MORE * middle:
            return None
        return log((last - middle) / (middle - first)) / log(o / n)

    @property
    def is_worse_than_linear(self) -> bool:
        """Say whether it grows faster than the size."""
        return self.slopes[-1] > MOST_SLOPE or (self.exponent or 0.0) > MOST_EXPONENT

    def as_json(self) -> dict[str, object]:
        """Give all that is known."""
        return {
            "axis": self.axis,
            "chart": self.chart,
            "what": self.what,
            "unit": self.unit,
            "costs": {str(size): cost for size, cost in self.costs.items()},
            "slopes": list(self.slopes),
            "exponent": self.exponent,
            "worseThanLinear": self.is_worse_than_linear,
        }


@dataclass(slots=True)
class Book:
    """All costs, as they come."""

    _costs: dict[tuple[str, str, str], dict[int, float]] = field(default_factory=dict)

    def page(self, axis: str, size: int) -> Page:
        """Give where the costs at one size are noted."""
        return Page(self, axis, size)

    def note(self, axis: str, chart: str, what: str, size: int, cost: float) -> None:
        """Take a cost."""
        self._costs.setdefault((axis, chart, what), {})[size] = cost

    def curves(self) -> list[Curve]:
        """Give all that has at least two sizes, by axis and chart."""
        found = [
            Curve(axis=axis, chart=chart, what=what, costs=dict(sorted(costs.items())))
            for (axis, chart, what), costs in self._costs.items()
            if len(costs) > 1
        ]
        charts = list(UNITS)
        return sorted(found, key=lambda one: (one.axis, charts.index(one.chart)))


@dataclass(frozen=True, slots=True)
class Page:
    """The costs at one size."""

    book: Book
    axis: str
    size: int

    def note(self, chart: str, what: str, cost: float) -> None:
        """Take a cost, in the unit of its chart."""
        self.book.note(self.axis, chart, what, self.size, cost)


def table(curves: Sequence[Curve], *, markdown: bool = False) -> str:
    """Lay the curves out for a person, one part for each axis."""
    parts = []
    for axis in dict.fromkeys(one.axis for one in curves):
        own = [one for one in curves if one.axis == axis]
        sizes = list(dict.fromkeys(size for one in own for size in one.costs))
        head = (
            *(axis, "unit", *(f"{size:,}" for size in sizes)),
            *(f"to {size:,}" for size in sizes[1:]),
            *("without constant", ""),
        )
        rows = [_row(one, sizes) for one in own]
        if markdown:
            lines = [_cells(head), _cells(["---"] * len(head)), *map(_cells, rows)]
        else:
            lines = columns([head, *rows], texts=2)
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cells(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _row(curve: Curve, sizes: Sequence[int]) -> tuple[str, ...]:
    costs = [curve.costs.get(size) for size in sizes]
    slopes = ["-"] * (len(sizes) - len(curve.slopes) - 1) + [f"{one:.2f}" for one in curve.slopes]
    return (
        *(curve.what, curve.unit),
        *("-" if one is None else figure(one) for one in costs),
        *slopes,
        "-" if curve.exponent is None else f"{curve.exponent:.2f}",
        "WORSE THAN LINEAR" if curve.is_worse_than_linear else "",
    )
