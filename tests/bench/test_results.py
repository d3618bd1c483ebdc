"""The figures of a benchmark are compared with their goals as the table says."""

from __future__ import annotations

import pytest
from bench.results import Result, growth, latencies, table


def test_the_table_shows_ratios_goals_and_what_is_missed() -> None:
    """A goal is about the median, or about its ratio to that of the peer, if there is one."""
    results = [
        Result(what="good", unit="ms", daemon=(4.0, 6.0, 90.0), peer=(2.5,), goal=7.0),
        Result(what="bad", unit="ms", daemon=(3.0,), goal=2.0),
        Result(what="slow", unit="ms", daemon=(3.0,), peer=(1.0,), goal_ratio=2.0),
        Result(what="alone", unit="ms", daemon=(3.0,), peer=(0.0,), goal_ratio=2.0),
    ]
    heading, *rows = table(results, "squat").splitlines()
    assert "squat" in heading
    assert [row.split() for row in rows[:3]] == [
        ["good", "ms", "6.00", "4.00..90.0", "2.50", "2.40x", "7.00"],
        ["bad", "ms", "3.00", "3.00..3.00", "-", "-", "2.00", "MISSED"],
        ["slow", "ms", "3.00", "3.00..3.00", "1.00", "3.00x", "2.00x", "MISSED"],
    ]
    assert [result.met for result in results] == [True, False, False, None]


def test_latencies_are_a_median_and_a_tail() -> None:
    p50, p99 = latencies("x", [[1.0, 2.0, 9.0], [1.0]], 3.0)
    assert (p50.what, p50.met, p99.what, p99.met) == ("x, p50", True, "x, p99", False)


@pytest.mark.parametrize(("medians", "verdict"), [((2.0, 20.0), True), ((2.0, 200.0), False)])
def test_growth_is_the_power_of_the_count(medians: tuple[float, float], verdict: bool) -> None:
    few, many = (Result(what="x", unit="ms", daemon=(median,), peer=(3.0,)) for median in medians)
    grown = growth("x", {10: few, 100: many}, 1.1)
    assert (grown.what, grown.peer) == ("x, exponent from 10 to 100", [0.0])
    assert grown.daemon[0] == pytest.approx(1.0 if verdict else 2.0)
    assert grown.met is verdict
