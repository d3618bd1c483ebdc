"""Token buckets, and who has to go."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.status.pacing import ResponsePace, too_slow

A, B, C = (name * 10 for name in (b"a", b"b", b"c"))


@given(
    st.floats(0.5, 2000),
    st.integers(1, 100),
    st.lists(st.floats(0, 10), min_size=1, max_size=200),
)
def test_in_no_time_come_more_than_the_burst_and_the_rate(
    rate: float, burst: int, gaps: list[float]
) -> None:
    """However they come: in pauses, all at once, or evenly."""
    pace, now, taken = ResponsePace(rate, burst), 1000.0, []
    for gap in gaps:
        now += gap
        taken.append(now)
        now += pace.take(now)
    for first, begun in enumerate(taken):
        for last in range(first, len(taken)):
            span = taken[last] - begun
            assert last - first <= burst + rate * span + 1e-3


def test_after_the_burst_they_come_evenly() -> None:
    pace, now, taken = ResponsePace(10, 3), 5.0, []
    for _ in range(8):
        taken.append(now)
        now += pace.take(now)
    gaps = [after - before for before, after in pairwise(taken)]
    assert gaps == pytest.approx([0, 0, 0, 0.1, 0.1, 0.1, 0.1])


def test_of_a_large_burst_a_few_come_together() -> None:
    pace, now, waits = ResponsePace(10, 8), 5.0, []
    for _ in range(14):
        waits.append(pace.take(now))
        now += waits[-1]
    assert waits == pytest.approx([0] * 8 + [0.3, 0, 0, 0.3, 0, 0])


@dataclass(eq=False)
class One:
    body: bytes
    since: float


@pytest.mark.parametrize(
    ("takers", "newest", "go"),
    [
        ([], A, []),
        ([(B, 1)], A, []),
        ([(B, 1), (C, 2)], A, [0]),
        ([(C, 2), (B, 1)], A, [1]),
        ([(B, 1), (C, 2)], B, []),
        ([(B, 1), (B, 2), (B, 3)], A, []),
        ([(C, 0), (B, 1), (b"", 0), (A, 3)], A, [0]),
    ],
)
def test_who_takes_longest_goes_until_the_rest_holds_little(
    takers: list[tuple[bytes, float]], newest: bytes, go: list[int]
) -> None:
    made = [One(body, since) for body, since in takers]
    assert too_slow(made, newest, 15) == [made[at] for at in go]
