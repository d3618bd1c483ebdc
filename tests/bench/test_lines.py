"""The figures of a benchmark are compared with their goals as the table says."""

from __future__ import annotations

import json

import pytest

from bench.lines import Line, percentile, table


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
    ("goal", "worst", "met"),
    [(None, False, None), (2.0, False, True), (1.9, False, False), (2.0, True, False)],
)
def test_a_goal_is_compared_with_the_median_or_the_worst(
    goal: float | None, worst: bool, met: bool | None
) -> None:
    line = Line(what="x", unit="ms", daemon=(1.0, 2.0, 9.0), goal=goal, worst=worst)
    assert line.met is met


def test_the_ratio_is_that_of_the_medians() -> None:
    line = Line(what="x", unit="ms", daemon=(4.0, 6.0, 90.0), baseline=(2.0, 3.0, 1.0))
    assert line.ratio == 3.0


@pytest.mark.parametrize("floor", [(), (0.0,)])
def test_without_a_floor_there_is_no_ratio(floor: tuple[float, ...]) -> None:
    line = Line(what="x", unit="ms", daemon=(1.0,), baseline=floor)
    assert line.ratio is None
    assert json.loads(json.dumps(line.as_json()))["ratio"] is None


def test_a_missed_goal_stands_out_in_the_table() -> None:
    lines = [
        Line(what="good", unit="ms", daemon=(1.0,), goal=2.0),
        Line(what="bad", unit="ms", daemon=(3.0,), goal=2.0, note="because"),
    ]
    _, good, bad, note = table(lines).splitlines()
    assert good.startswith("good")
    assert good.endswith("met")
    assert bad.endswith("MISSED")
    assert note == "bad: because"


def test_a_tail_has_no_ratio_but_may_have_a_goal_for_it() -> None:
    line = Line(
        what="x",
        unit="ms",
        daemon=(4.0,),
        baseline=(2.0,),
        goal=1.5,
        relative=True,
        comparable=False,
    )
    assert line.ratio is None
    assert line.met is False
    assert line.as_json()["comparedWithGoal"] == "ratio"
    assert table([line]).splitlines()[1].split()[-4:] == ["2.00", "-", "1.50x", "MISSED"]


def test_the_baseline_is_named() -> None:
    line = Line(what="x", unit="ms", daemon=(4.0,), baseline=(2.0,), beside="at rest")
    assert "at rest 2.00" in table([line])
    assert line.as_json()["beside"] == "at rest"
