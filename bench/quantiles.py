"""Lines of quantiles: the middle can be compared with another run's, the tails only looked at."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from bench.lines import Line, percentile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_TAILS = {"p99": 0.99, "p99.9": 0.999}
_FEW = 500
"""So few samples are shown whole."""
_ENOUGH = 1000
"""For a p99.9: with fewer it would be the largest."""
_NO_GOALS: Mapping[str, float] = {}


def quantiles(
    what: str,
    daemon: Sequence[Sequence[float]],
    baseline: Sequence[Sequence[float]],
    *,
    goals: Mapping[str, float] = _NO_GOALS,
    beside: str = "floor",
    relative: bool = False,
    comparable: bool = True,
    note: str = "",
) -> list[Line]:
    """Give p50, p99 and, of enough samples, p99.9, in milliseconds; ``goals`` by these names.

    A sample of p50 is a block's, or each one if they are few; the tails are of all together.
    ``relative``: the goals are of the ratio. ``comparable``: the middles' ratio means something.
    """
    own, other = list(chain(*daemon)), list(chain(*baseline))
    lines = [
        Line(
            what=f"{what}, p50",
            unit="ms",
            daemon=_middles(daemon),
            baseline=_middles(baseline),
            goal=goals.get("p50"),
            relative=relative,
            beside=beside,
            comparable=comparable,
            note=note,
        )
    ]
    for name, share in _TAILS.items():
        if name == "p99.9" and min(len(own), len(other) or len(own)) < _ENOUGH:
            continue
        lines.append(
            Line(
                what=f"{what}, {name}",
                unit="ms",
                daemon=(percentile(own, share),),
                baseline=(percentile(other, share),) if other else (),
                goal=goals.get(name),
                relative=relative,
                beside=beside,
                comparable=False,
            )
        )
    return lines


def _middles(blocks: Sequence[Sequence[float]]) -> tuple[float, ...]:
    if sum(map(len, blocks)) < _FEW:
        return tuple(chain(*blocks))
    return tuple(percentile(block, 0.50) for block in blocks)
