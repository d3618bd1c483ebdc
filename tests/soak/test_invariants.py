"""Each invariant of the soak fails when it should: a check that cannot fail shows nothing."""

from __future__ import annotations

import pytest

from tests.soak.config import KINDS, Places
from tests.soak.invariants import (
    Knowledge,
    knowledge,
    leftover,
    mistakes,
    registered_again,
    usual_growth,
    wrong_answer,
)
from tests.soak.record import HEALTHY, UNHEALTHY, Record

A0, A1, B0 = "soak_alpha-0", "soak_alpha-1", "soak_beta-0"
TRUE = {"alpha": {A0: HEALTHY, A1: HEALTHY}, "beta": {B0: UNHEALTHY}}


@pytest.fixture
def record() -> Record:
    """Two devices of alpha, and one of beta that has disappeared and is kept."""
    made = Record(Places(directory="soak", health="/health"), tuple(KINDS))
    for node in ("alpha-0", "alpha-1", "beta-0"):
        made.plug(node, 1.0)
    made.settle(1.0)
    made.unplug("beta-0", 2.0)
    made.settle(2.0)
    return made


@pytest.mark.parametrize(
    ("kind", "listed", "mistake"),
    [
        ("alpha", {A0: HEALTHY}, f"{A1} is not listed and should be Healthy"),
        ("alpha", {A0: HEALTHY, A1: UNHEALTHY}, f"{A1} is Unhealthy and should be Healthy"),
        ("beta", {B0: HEALTHY}, f"{B0} is Healthy and should be Unhealthy"),
        ("beta", {}, f"{B0} is not listed and should be Unhealthy"),
        ("gamma", {"y": HEALTHY}, "y is Healthy and should be not listed"),
    ],
)
def test_anything_else_in_a_list_is_a_mistake(
    record: Record, kind: str, listed: dict[str, str], mistake: str
) -> None:
    assert mistakes(record, TRUE, 3.0) == []
    assert mistakes(record, {**TRUE, kind: listed}, 3.0) == [f"{kind}: {mistake}"]


def test_of_a_kubelet_that_tells_healthy_devices_only_the_others_are_not_asked(
    record: Record,
) -> None:
    assert mistakes(record, {"alpha": TRUE["alpha"]}, 3.0, healthy_only=True) == []
    assert mistakes(record, {**TRUE, "beta": {B0: HEALTHY}}, 3.0, healthy_only=True)
    assert mistakes(record, {"alpha": {A0: HEALTHY}}, 3.0, healthy_only=True)


HERE = Knowledge(plugged=True, healthy=True, settled=True, epochs=(0, 0))
GONE = Knowledge(plugged=False, healthy=False, settled=True, epochs=(0, 0))
GONE_UNSETTLED = Knowledge(plugged=False, healthy=False, settled=False, epochs=(1, 1))
BACK = Knowledge(plugged=True, healthy=True, settled=False, epochs=(2, 2))
SICK = Knowledge(plugged=True, healthy=False, settled=True, epochs=(0, 0))
TOUCHED = Knowledge(plugged=True, healthy=True, settled=True, epochs=(1, 0))


@pytest.mark.parametrize(
    ("before", "after", "answered", "wrong"),
    [
        (HERE, HERE, True, ""),
        (HERE, HERE, False, "refused for a device that is there"),
        (GONE, GONE, False, ""),
        (GONE, GONE, True, "answered for a device that was missing"),
        # A moment after it was unplugged no list has to say so, but Allocate looks itself.
        (GONE_UNSETTLED, GONE_UNSETTLED, True, "answered for a device that was missing"),
        (GONE_UNSETTLED, BACK, True, ""),
        (SICK, SICK, True, "answered for a device that is not on offer"),
        (HERE, TOUCHED, False, ""),
        (HERE, GONE_UNSETTLED, True, ""),
    ],
)
def test_answers_of_allocate_are_judged_by_what_was_there(
    before: Knowledge, after: Knowledge, answered: bool, wrong: str
) -> None:
    assert wrong_answer(before, after, answered=answered) == wrong


def test_what_is_known_of_a_device_changes_with_each_step(record: Record) -> None:
    assert knowledge(record, "alpha-0", 3.0).healthy
    before = knowledge(record, "beta-0", 3.0)
    record.touch({"beta"})
    record.plug("beta-0", 4.0)
    after = knowledge(record, "beta-0", 4.0)
    assert [(known.plugged, known.settled) for known in (before, after)] == [
        (False, True),
        (True, False),
    ]
    assert after.epochs != before.epochs


def test_what_registers_without_a_reason_or_is_more_than_before_is_named() -> None:
    before = {"alpha": (1, "a"), "beta": (1, "b"), "gamma": (1, "c")}
    after = {"alpha": (1, "a"), "beta": (2, "b2"), "gamma": (2, "c2")}
    assert registered_again(before, before, frozenset()) == []
    assert registered_again(before, after, frozenset({"gamma"})) == ["beta"]
    assert leftover({"socket": 4, "pipe": 2}, {"socket": 4}) == {}
    assert leftover({"socket": 4}, {"socket": 5, "pipe": 1}) == {"pipe": 1, "socket": 1}


def test_a_leak_of_500_bytes_for_each_of_100_reloads_is_a_slope_and_a_busy_rest_is_none() -> None:
    steady = [(i * 10.0, 7050.0 + (i % 3) * 3.0 + (80.0 if i in {1, 19} else 0)) for i in range(21)]
    leaking = [(at, amount + 0.533 * at / 2) for at, amount in steady]
    found, none = usual_growth(leaking), usual_growth(steady)
    assert found is not None
    assert none is not None
    assert found.total > 40.0
    assert abs(none.total) < 4.0
    assert usual_growth(leaking[:2]) is None
