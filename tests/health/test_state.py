"""genericdp.health.state: from results to Healthy or Unhealthy, and when probes run."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import BoundProbe
from genericdp.errors import Outcome
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.state import DeviceHealth, ProbeState, share_of_period
from genericdp.model import Command
from genericdp.reasons import Code, text_of
from hypothesis import given
from hypothesis import strategies as st

from tests.health.probed_devices import R, device, probe

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = Outcome()


def failed(reason: str = "broken") -> Outcome:
    return Outcome(reason=reason)


def state(failures: int = 3, successes: int = 1, *, healthy: bool | None = None) -> ProbeState:
    asked = probe(failure_threshold=failures, success_threshold=successes)
    bound = BoundProbe(probe=asked, check=ExecCheck(command=Command(argv=("/x",))))
    return ProbeState(bound, due=0.0, healthy=healthy)


def after_each(of: ProbeState, outcomes: Iterable[Outcome]) -> list[tuple[bool | None, str]]:
    """Return whether the device is healthy, and why not: at first, and after each result."""
    found = [(of.healthy, str(of.reason or ""))]
    for outcome in outcomes:
        of.add(outcome)
        found.append((of.healthy, str(of.reason or "")))
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
        # One that was well stays so until a new probe has failed often enough.
        ("---", (3, 1), "HHHU"),
    ],
)
def test_so_many_results_in_a_row_change_the_state(
    results: str, thresholds: tuple[int, int], expected: str
) -> None:
    """D6: a device that recovers is Healthy again (change: ``add`` keeps ``healthy=False``)."""
    outcomes = [OK if result == "+" else failed() for result in results]
    began = state(*thresholds, healthy=True if expected[0] == "H" else None)
    letters = {None: "?", True: "H", False: "U"}
    assert "".join(letters[healthy] for healthy, _ in after_each(began, outcomes)) == expected


def test_the_reason_is_that_of_the_latest_failure_and_goes_with_it() -> None:
    outcomes = [failed("a"), failed("b"), OK, OK, failed("c"), OK, OK, OK]
    assert [reason for _, reason in after_each(state(1, 3), outcomes)] == [
        "not probed yet",
        "a",
        "b",
        "b (passing again, 1 of 3 required successes)",
        "b (passing again, 2 of 3 required successes)",
        "c",
        "c (passing again, 1 of 3 required successes)",
        "c (passing again, 2 of 3 required successes)",
        "",
    ]


def test_each_probe_that_does_not_pass_is_named() -> None:
    health = DeviceHealth.new(R, device("a", probe(), probe(), probe()), 0.0)
    for state, outcome in zip(health.states, (failed("busy"), OK, failed("gone")), strict=True):
        assert isinstance(state, ProbeState)
        health.add(state, outcome, 0.0)
    health.update_reasons()
    assert [(reason.code, reason.text) for reason in health.reasons] == [
        (Code.PROBE_FAILED, "exec /a/0: busy"),
        (Code.PROBE_FAILED, "exec /a/2: gone"),
    ]


@given(
    results=st.lists(st.booleans(), max_size=60),
    failures=st.integers(1, 6),
    successes=st.integers(1, 6),
)
def test_no_state_flips_below_its_threshold_and_each_flips_at_it(
    results: list[bool], failures: int, successes: int
) -> None:
    outcomes = [OK if good else failed(f"failure {number}") for number, good in enumerate(results)]
    found = [healthy for healthy, _ in after_each(state(failures, successes), outcomes)[1:]]
    for at in range(1, len(results)):
        run = len(list(next(iter(groupby(reversed(results[: at + 1]))))[1]))
        before, now, result = found[at - 1], found[at], results[at]
        needed = successes if result else failures
        if before == result:
            assert now == before
        elif run >= needed:
            assert now == result
        elif run < needed and now != before:
            # Only results since the last flip count, and there are no more than this run.
            raise AssertionError(f"flipped after {run} of {needed}")


def test_the_place_in_the_period_is_the_same_after_a_restart() -> None:
    assert share_of_period("example.com/a", "1-1.4", "0") == 0.376583567381509


def test_a_report_has_at_most_2000_characters_and_says_that_results_are_missing() -> None:
    health = DeviceHealth.new(R, device("a", probe(), probe()), 0.0)
    first, second = health.states
    for at, said in ((first, True), (second, False)):
        assert isinstance(at, ProbeState)
        health.add(at, failed("x" * 60_000), 0.0)
        health.update_reasons()
        assert len(text_of(health.reasons)) == 2000
        assert (Code.NOT_PROBED in {reason.code for reason in health.reasons}) is said


def next_run(of: DeviceHealth, now: float) -> float:
    """Take a result and return when the probe runs again."""
    due = of.due_probe(now)
    assert due is not None
    of.add(due, OK, now)
    return due.due


def test_the_second_runs_of_a_thousand_devices_are_spread_over_the_period() -> None:
    devices = [DeviceHealth.new(R, device(f"d{i}", probe()), 0.0) for i in range(1000)]
    seconds = [next_run(each_device, 0.0) for each_device in devices]
    assert all(5 <= each_second < 15 for each_second in seconds)
    per_second = Counter(int(second) for second in seconds)
    assert max(per_second.values()) < 150


def test_what_was_missed_is_not_made_up_for() -> None:
    health = DeviceHealth.new(R, device("a", probe()), 0.0)
    second = next_run(health, 0.0)
    assert next_run(health, second + 0.2) == second + 10
    assert next_run(health, second + 35) == second + 35
