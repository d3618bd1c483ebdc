"""genericdp.health.thresholds: from results to Healthy or Unhealthy."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.health.thresholds import (
    NOT_PROBED,
    UNPROBED,
    WELL,
    after,
    verdict,
)
from genericdp.model import FileCheck, Probe
from genericdp.process.outcome import Outcome
from genericdp.template import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.health.thresholds import ProbeState

OK = Outcome()


def failed(reason: str = "broken") -> Outcome:
    return Outcome(reason=reason)


def probe(failures: int = 3, successes: int = 1) -> Probe:
    check = FileCheck(path=parse("/x"), equals=parse("1"))
    return Probe(check=check, failure_threshold=failures, success_threshold=successes)


def states(start: ProbeState, of: Probe, outcomes: Iterable[Outcome]) -> list[ProbeState]:
    found = [start]
    for outcome in outcomes:
        found.append(after(found[-1], of, outcome))
    return found


@pytest.mark.parametrize(
    ("results", "thresholds", "expected"),
    [
        ("", (3, 1), "?"),
        ("+", (3, 1), "?H"),
        ("+", (3, 5), "?H"),
        ("-", (3, 1), "?U"),
        ("+--", (3, 1), "?HHH"),
        ("+---", (3, 1), "?HHHU"),
        ("+--+--", (3, 1), "?HHHHHH"),
        ("+-", (1, 1), "?HU"),
        ("-+", (3, 1), "?UH"),
        ("-+", (3, 2), "?UU"),
        ("-++", (3, 2), "?UUH"),
        ("-+-+", (3, 2), "?UUUU"),
        ("+---+---", (3, 1), "?HHHUHHHU"),
    ],
)
def test_so_many_results_in_a_row_change_the_state(
    results: str, thresholds: tuple[int, int], expected: str
) -> None:
    """D6: a device that recovers is Healthy again (change: ``after`` keeps ``healthy=False``)."""
    outcomes = [OK if one == "+" else failed() for one in results]
    found = states(UNPROBED, probe(*thresholds), outcomes)
    letters = {None: "?", True: "H", False: "U"}
    assert "".join(letters[one.healthy] for one in found) == expected


def test_a_device_that_was_well_stays_so_until_a_new_probe_has_failed_often_enough() -> None:
    found = states(WELL, probe(3, 1), [failed(), failed(), failed()])
    assert [one.healthy for one in found] == [True, True, True, False]


def test_the_reason_is_that_of_the_latest_failure_and_goes_with_it() -> None:
    of = probe(1, 3)
    found = states(UNPROBED, of, [failed("a"), failed("b"), OK, OK, failed("c"), OK, OK, OK])
    assert [one.reason(of) for one in found] == [
        NOT_PROBED,
        "a",
        "b",
        "b (well since, 1 of 3 times)",
        "b (well since, 2 of 3 times)",
        "c",
        "c (well since, 1 of 3 times)",
        "c (well since, 2 of 3 times)",
        "",
    ]


def test_the_verdict_names_each_probe_that_does_not_pass() -> None:
    assert verdict([("open", ""), ("file /x", "")]) == ""
    assert verdict([("open", ""), ("file /x", "gone")]) == "file /x: gone"
    assert verdict([("open", "busy"), ("file /x", "gone")]) == "open: busy; file /x: gone"
    assert verdict([("", "gone"), ("open", "busy")]) == "gone; open: busy"


@given(
    results=st.lists(st.booleans(), max_size=60),
    failures=st.integers(1, 6),
    successes=st.integers(1, 6),
)
def test_no_state_flips_below_its_threshold_and_each_flips_at_it(
    results: list[bool], failures: int, successes: int
) -> None:
    of = probe(failures, successes)
    outcomes = [OK if good else failed(f"failure {number}") for number, good in enumerate(results)]
    found = states(UNPROBED, of, outcomes)[1:]
    for at in range(1, len(results)):
        run = len(list(next(iter(groupby(reversed(results[: at + 1]))))[1]))
        before, now, result = found[at - 1].healthy, found[at].healthy, results[at]
        needed = successes if result else failures
        if before == result:
            assert now == before
        elif run >= needed:
            assert now == result
        elif run < needed and now != before:
            # Only results since the last flip count, and there are no more than this run.
            raise AssertionError(f"flipped after {run} of {needed}")


@given(results=st.lists(st.booleans(), min_size=1, max_size=40), successes=st.integers(1, 4))
def test_an_unhealthy_device_gives_its_latest_failure_a_healthy_one_none(
    results: list[bool], successes: int
) -> None:
    of = probe(2, successes)
    outcomes = [
        OK if good else failed(f"<failure {number}>") for number, good in enumerate(results)
    ]
    end = states(UNPROBED, of, outcomes)[-1]
    failures = [one.reason for one in outcomes if not one.ok]
    if end.healthy:
        assert end.reason(of) == ""
    else:
        assert end.reason(of).startswith(failures[-1])
