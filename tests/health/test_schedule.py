"""genericdp.health.schedule: when probes run."""

from __future__ import annotations

from collections import Counter

from genericdp.health.schedule import next_run, second_run, share_of_period


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
