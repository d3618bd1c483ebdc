"""The figures of a benchmark are compared with their goals as the table says."""

from __future__ import annotations

import json

import pytest
from bench.results import Result, counted, growth, latencies, percentile, table


@pytest.mark.parametrize(
    ("samples", "share", "wanted"),
    [
        ([1.0], 0.99, 1.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([float(i) for i in range(1000)], 0.99, 990.0),
        ([float(i) for i in range(20)], 0.99, 19.0),
    ],
)
def test_a_percentile_is_one_of_the_samples(
    samples: list[float], share: float, wanted: float
) -> None:
    assert percentile(samples, share) == wanted


@pytest.mark.parametrize(
    ("goals", "verdict"),
    [
        ({}, None),
        ({"goal": 2.0}, True),
        ({"goal": 1.9}, False),
        ({"goal_ratio": 2.0}, True),
        ({"goal_ratio": 1.9}, False),
    ],
)
def test_a_goal_is_about_the_median_or_the_ratio(
    goals: dict[str, float], verdict: bool | None
) -> None:
    result = Result(what="x", unit="ms", daemon=(1.0, 2.0, 9.0), peer=(1.0, 1.0), **goals)
    assert result.met is verdict
    assert json.loads(json.dumps(result.as_json()))["met"] is verdict


@pytest.mark.parametrize("peer", [(), (0.0,)])
def test_without_a_peer_there_is_no_ratio(peer: tuple[float, ...]) -> None:
    result = Result(what="x", unit="", daemon=(1.0,), peer=peer, goal_ratio=1.0)
    assert (result.ratio, result.met) == (None, None)


def test_the_table_shows_ratios_goals_and_what_is_missed() -> None:
    results = [
        Result(what="good", unit="ms", daemon=(4.0, 6.0, 90.0), peer=(2.5,), goal=7.0),
        Result(what="bad", unit="ms", daemon=(3.0,), goal=2.0),
        Result(what="slow", unit="ms", daemon=(3.0,), peer=(1.0,), goal_ratio=2.0),
    ]
    heading, good, bad, slow = table(results, "squat").splitlines()
    assert "squat" in heading
    assert good.split() == ["good", "ms", "6.00", "4.00..90.0", "2.50", "2.40x", "7.00"]
    assert bad.split() == ["bad", "ms", "3.00", "3.00..3.00", "-", "-", "2.00", "MISSED"]
    assert slow.split() == ["slow", "ms", "3.00", "3.00..3.00", "1.00", "3.00x", "2.00x", "MISSED"]


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


def test_a_count_has_its_noun() -> None:
    assert [counted(n, "device") for n in (1, 1000)] == ["1 device", "1,000 devices"]
