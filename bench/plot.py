"""Small plots as SVG: both axes logarithmic, each line named at its end.

The colours are of middle brightness and there is no background: it is read on white and on black.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WIDTH, _HEIGHT = 800, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 300, 40, 46
"""Around the frame, in the units of the drawing; the names of the lines stand at the right."""
_APART = 14.0
"""Between the names of two lines."""
_GREY = "#808080"
_COLOURS = (
    *("#2f81c7", "#c7622f", "#2f9e5b", "#a05bc7", "#b8860b"),
    *("#c73f6d", "#3f9ea8", "#7d8f2f", "#8a6d5b", "#6070d0"),
    *("#c78a5f", "#5f8fb0"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line."""

    name: str
    points: Mapping[int, float]
    """y by x; all are more than zero."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scale:
    """From a number to a place along one axis."""

    low: int
    high: int
    """Powers of ten."""
    begin: float
    end: float

    def at(self, number: float) -> float:
        share = (log10(number) - self.low) / (self.high - self.low)
        return round(self.begin + share * (self.end - self.begin), 1)

    def ticks(self) -> Iterator[float]:
        return (10.0**power for power in range(self.low, self.high + 1))

    def between(self) -> Iterator[float]:
        """Give 2, 3, … 9 times each tick."""
        return (k * 10.0**power for power in range(self.low, self.high) for k in range(2, 10))


def plot(title: str, *, x: str, y: str, series: Sequence[Series]) -> str:
    """Draw the lines; a dashed one shows what linear is. Raises ValueError if there is no point."""
    xs = [place for one in series for place in one.points]
    ys = [value for one in series for value in one.points.values()]
    if not xs:
        raise ValueError("there is nothing to plot")
    across = _scale(xs, _LEFT, _WIDTH - _RIGHT)
    up = _scale(ys, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        *_frame(title, x, y, across, up),
        *_linear(min(xs), max(xs), across, up),
        *_lines(series, across, up),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="{_GREY}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>", ""])


def _scale(numbers: Sequence[float], begin: float, end: float) -> _Scale:
    low, high = floor(log10(min(numbers))), ceil(log10(max(numbers)))
    return _Scale(low=low, high=max(high, low + 1), begin=begin, end=end)


def _frame(title: str, x: str, y: str, across: _Scale, up: _Scale) -> Iterator[str]:
    yield _text(_LEFT, _TOP - 18, title, 'font-size="14" font-weight="600"')
    left, right, low, high = across.begin, across.end, up.begin, up.end
    for tick in across.ticks():
        at = across.at(tick)
        yield _line(at, low, at, high, 'stroke-opacity="0.35"')
        yield _text(at, low + 16, _number(tick), 'text-anchor="middle"')
    for tick in up.ticks():
        at = up.at(tick)
        yield _line(left, at, right, at, 'stroke-opacity="0.35"')
        yield _text(left - 6, at + 4, _number(tick), 'text-anchor="end"')
    for tick in across.between():
        yield _line(across.at(tick), low, across.at(tick), low - 3, "")
    for tick in up.between():
        yield _line(left, up.at(tick), left + 3, up.at(tick), "")
    yield _text((left + right) / 2, _HEIGHT - 10, x, 'text-anchor="middle"')
    middle = (low + high) / 2
    yield _text(14, middle, y, f'text-anchor="middle" transform="rotate(-90 14 {middle:g})"')


def _linear(first: float, last: float, across: _Scale, up: _Scale) -> Iterator[str]:
    """Draw how cost grows that grows as the size does, through the lower left corner."""
    top = 10.0**up.high
    begin = 10.0**up.low
    reach = min(last, first * top / begin)
    corner = (across.at(first), up.at(begin))
    yield _text(corner[0] + 26, corner[1] - 5, "linear", 'font-size="10"')
    yield _line(*corner, across.at(reach), up.at(begin * reach / first), 'stroke-dasharray="4 4"')


def _lines(series: Sequence[Series], across: _Scale, up: _Scale) -> Iterator[str]:
    ends = [up.at(one.points[max(one.points)]) for one in series]
    for number, (one, name_at) in enumerate(zip(series, _apart(ends, up), strict=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(across.at(place), up.at(one.points[place])) for place in sorted(one.points)]
        path = " ".join(f"{place:g},{value:g}" for place, value in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for place, value in places:
            yield f'<circle cx="{place:g}" cy="{value:g}" r="3" fill="{colour}"/>'
        end, right = places[-1], across.end + 14
        yield _line(end[0] + 4, end[1], right - 2, name_at, f'stroke="{colour}" opacity="0.5"')
        yield _text(right, name_at + 4, one.name, f'fill="{colour}"')


def _apart(ends: Sequence[float], up: _Scale) -> list[float]:
    """Give where the names stand: beside the ends of their lines, but none over another."""
    order = sorted(range(len(ends)), key=lambda number: ends[number])
    places, last = [0.0] * len(ends), up.end - _APART
    for number in order:
        last = places[number] = max(ends[number], last + _APART)
    # What has been pushed out below goes up again, and pushes those above it.
    last = up.begin + _APART
    for number in reversed(order):
        last = places[number] = min(places[number], last - _APART)
    return [round(place, 1) for place in places]


def _line(x1: float, y1: float, x2: float, y2: float, more: str) -> str:
    stroke = "" if "stroke=" in more else f' stroke="{_GREY}"'
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"{stroke} {more}/>'


def _text(x: float, y: float, text: str, more: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(text)}</text>'


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 1 else f"{number:g}"
