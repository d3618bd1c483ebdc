"""genericdp.health.schedule: when probes run, and how many at once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from genericdp.health.schedule import Slots, next_run, second_run, share_of_period


def test_the_place_in_the_period_is_the_same_after_a_restart() -> None:
    assert share_of_period("example.com/a", "1-1.4", "0") == 0.376583567381509


def test_a_thousand_devices_do_not_fire_together() -> None:
    firsts = [second_run(0, 10, share_of_period("r", f"d{i}", "0")) for i in range(1000)]
    assert all(5 <= one < 15 for one in firsts)
    per_second = Counter(int(one) for one in firsts)
    assert max(per_second.values()) < 150


def test_what_was_missed_is_not_made_up_for() -> None:
    assert next_run(100, 100.2, 10) == 110
    assert next_run(100, 135, 10) == 135


def test_forty_hanging_probes_of_one_resource_delay_no_other_one() -> None:
    slots: Slots[int | str] = Slots()
    for number in range(40):
        slots.enter("hanging", number)
    assert slots.start() == [0, 1, 2, 3]
    slots.enter("other", "x")
    assert slots.start() == ["x"]
    slots.leave("hanging")
    assert slots.start() == [4]


def test_at_most_thirty_two_run_at_once_one_of_each_resource_in_turn() -> None:
    slots: Slots[tuple[int, int]] = Slots()
    for name in range(20):
        for number in range(4):
            slots.enter(f"r{name}", (name, number))
    started = slots.start()
    assert len(started) == slots.running == 32
    assert {name for name, _ in started} == set(range(20))
    slots.leave("r0")
    # What has waited since its last turn the longest goes on.
    assert slots.start() == [(12, 1)]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.booleans()),
        max_size=80,
    )
)
def test_the_limits_hold_and_each_job_runs_once_and_in_its_order(
    steps: list[tuple[str, bool]],
) -> None:
    slots: Slots[tuple[str, int]] = Slots(of_resource=2, in_all=5)
    running: list[tuple[str, int]] = []
    started: list[tuple[str, int]] = []
    entered: list[tuple[str, int]] = []
    for resource, enters in steps:
        if enters:
            entered.append((resource, len(entered)))
            slots.enter(resource, entered[-1])
        elif running:
            slots.leave(running.pop(0)[0])
        new = slots.start()
        running += new
        started += new
        assert len(running) == slots.running <= 5
        assert max(Counter(name for name, _ in running).values(), default=0) <= 2
        waiting = [job for job in entered if job not in started]
        for name, _ in waiting:
            of_it = sum(job[0] == name for job in running)
            assert of_it == 2 or len(running) == 5
    for name in "abcde":
        mine = [job for job in started if job[0] == name]
        assert mine == sorted(mine, key=lambda job: job[1])
    assert len(set(started)) == len(started)
