"""Failures are logged once and retried ever more rarely; waiters see each value that stays."""

from __future__ import annotations

import asyncio
import logging

import pytest
from genericdp.observed import Observed, Signal, until
from genericdp.repeat import Latch, delay_after
from genericdp.supervisor import Pace

from tests.polling import others_run

log = logging.getLogger(__name__)


def test_the_begin_a_change_and_the_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    latch, changed = Latch(log), []
    for reason in ("", "full", "full", "gone", "", "", "full"):
        level = logging.ERROR if reason == "gone" else logging.WARNING
        changed.append(
            latch.update(reason, "%s: %s", "disk", reason, ended="well: 100 %", level=level)
        )
        assert latch.reason == reason
    assert changed == [False, True, False, True, True, False, True]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "disk: full"),
        ("ERROR", "disk: gone"),
        ("INFO", "well: 100 %"),
        ("WARNING", "disk: full"),
    ]
    assert latch.update("")
    assert caplog.messages[4:] == [], "an end can be silent"


def test_delays_double_up_to_a_limit() -> None:
    assert [delay_after(n, 0.5, 3) for n in (1, 2, 3, 4, 10**6)] == [0.5, 1, 2, 3, 3]


@pytest.mark.parametrize(("took", "rest"), [(0.02, 30.0), (1.5, 30.0), (4, 80.0), (9e3, 300)])
def test_looks_that_take_long_are_rare(took: float, rest: float) -> None:
    """Fails if 100,000 devices are all read every 30 s: that is a sixth of a core."""
    assert Pace().between_full_looks(took) == pytest.approx(rest)


@pytest.mark.parametrize(
    ("took", "lists_changed", "pause"),
    [(0.03, True, 0.07), (0.3, True, 0.0), (0.03, False, 0.03), (4.5, False, 1.0)],
)
def test_an_event_does_not_wait_for_long_because_a_pass_took_long(
    took: float, *, lists_changed: bool, pause: float
) -> None:
    """Fails if the pause after a pass is as long as the pass, whatever that took."""
    assert Pace().pause(took, lists_changed=lists_changed) == pytest.approx(pause)


async def test_every_waiter_sees_a_change_of_any_value_and_no_equal_one() -> None:
    value, other, asked = Observed(0), Observed(0), list[int]()

    def is_over() -> bool:
        asked.append(1)
        return value.value == 2

    async with asyncio.TaskGroup() as tasks:
        waiters = [tasks.create_task(until(is_over, other, value)) for _ in range(3)]
        await others_run()
        value.value = 0
        await others_run()
        assert len(asked) == 3, "once at the beginning"
        value.value = 1
        await others_run()
        assert not any(waiter.done() for waiter in waiters)
        value.value = 2
    assert all(waiter.result() for waiter in waiters)
    assert await until(is_over, value, timeout_seconds=0)
    assert not await until(lambda: False, value, timeout_seconds=0.01)


async def test_a_signal_shows_whether_it_was_sent_since_it_was_watched() -> None:
    signal = Signal()
    before = signal.watch()
    signal.send()
    after = signal.watch()
    assert await until(before, signal, timeout_seconds=0)
    assert not await until(after, signal, timeout_seconds=0.01)
