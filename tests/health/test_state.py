"""genericdp.health.state: from results to Healthy or Unhealthy, and when probes run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import BoundProbe
from genericdp.errors import Outcome
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.state import DeviceHealth, ProbeState
from genericdp.model import Command
from genericdp.reasons import Code, text_of

from tests.health.probed_devices import R, device, probe

if TYPE_CHECKING:
    pass

OK = Outcome()


def failed(reason: str = "broken") -> Outcome:
    return Outcome(reason=reason)


def state(failures: int = 3, successes: int = 1, *, healthy: bool | None = None) -> ProbeState:
    asked = probe(failure_threshold=failures, success_threshold=successes)
    bound = BoundProbe(probe=asked, check=ExecCheck(command=Command(argv=("/x",))))
    return ProbeState(bound, due=0.0, healthy=healthy)


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
    of = state(*thresholds, healthy=True if expected[0] == "H" else None)
    found = [of.healthy]
    for result in results:
        of.add(OK if result == "+" else failed())
        found.append(of.healthy)
    assert "".join({None: "?", True: "H", False: "U"}[healthy] for healthy in found) == expected


def test_the_reason_is_that_of_the_latest_failure_and_goes_with_it() -> None:
    of = state(1, 3)
    assert str(of.reason) == "not probed yet"
    for outcome, reason in (
        (failed("a"), "a"),
        (failed("b"), "b"),
        (OK, "b (passing again, 1 of 3 required successes)"),
        (failed("c"), "c"),
        (OK, "c (passing again, 1 of 3 required successes)"),
        (OK, "c (passing again, 2 of 3 required successes)"),
        (OK, ""),
    ):
        of.add(outcome)
        assert str(of.reason or "") == reason


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
