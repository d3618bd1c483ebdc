from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.tally import BOUNDS, Durations, Labels, Tally

LABELS = Labels(probes={0: "exec-0", 2: "file-2"}, hooks=("allocate",))
NAME = "example.com/a"


@pytest.fixture
def tally() -> Tally:
    tally = Tally()
    tally.keep({NAME: LABELS})
    return tally


@given(st.lists(st.floats(min_value=0, max_value=1e6)))
def test_each_duration_is_counted_below_every_bound_that_it_does_not_exceed(
    seconds: list[float],
) -> None:
    durations = Durations()
    for one in seconds:
        durations.add(one)
    at_most = [sum(one <= bound for one in seconds) for bound in BOUNDS]
    assert durations.cumulative == [*at_most, len(seconds)]
    assert durations.seconds == pytest.approx(sum(seconds))


def test_all_series_of_a_resource_are_there_before_anything_has_happened(tally: Tally) -> None:
    counted = tally.of(NAME)
    assert counted.hooks == {"allocate": {"success": 0, "failure": 0}}
    assert {*counted.allocations.values(), *counted.registrations.values()} == {0}
    assert [one.label for one in counted.probes.values()] == ["exec-0", "file-2"]


def test_what_is_no_longer_in_the_config_is_not_counted(tally: Tally) -> None:
    """A result may come from a probe that a reload has removed: no series comes back by that."""
    counted = tally.of(NAME)
    for index in (0, 1, 2):
        counted.probed(index, ok=False, seconds=0.1)
    counted.hooked("allocate", ok=False)
    tally.keep({NAME: Labels(probes={0: "exec-0", 2: "open-2"}, hooks=("preStart",))})
    assert tally.of(NAME) is counted
    counted.hooked("allocate", ok=False)
    counted.hooked("preStart", ok=True)
    assert counted.hooks == {"preStart": {"success": 1, "failure": 0}}
    assert counted.probes[0].results == {"success": 0, "failure": 1}
    assert counted.probes[2].results == {"success": 0, "failure": 0}


def test_a_resource_that_goes_takes_its_counts_along_and_returns_with_none(tally: Tally) -> None:
    leaving = tally.of(NAME)
    leaving.updates += 1
    tally.keep({})
    leaving.updates += 1  # its farewell
    tally.of(NAME).updates += 1
    assert tally.resources == {}
    tally.keep({NAME: LABELS})
    assert tally.of(NAME).updates == 0


def test_an_action_that_no_kernel_of_today_knows_is_another_one(tally: Tally) -> None:
    for kind in ("add", "implode", "file"):
        tally.happened(kind)
    assert {kind: n for kind, n in tally.events.items() if n} == {"add": 1, "other": 1, "file": 1}


def test_a_copy_stays_as_it_is(tally: Tally) -> None:
    def count(of: Tally) -> None:
        one = of.of(NAME)
        one.allocated("success", 0.2)
        one.registrations["failure"] += 1
        one.probed(0, ok=True, seconds=1.0)
        one.hooked("allocate", ok=True)
        one.updates += 1
        of.happened("add")
        of.reloads["applied"] += 1
        of.discovery.add(0.01)

    count(tally)
    copy, same = tally.copy(), tally.copy()
    assert copy == tally
    count(tally)
    assert copy == same != tally
