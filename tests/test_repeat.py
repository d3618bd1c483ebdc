"""What fails for a while is logged once, and tried ever more rarely."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from genericdp.repeat import Latch, delay_after, jittered

if TYPE_CHECKING:
    import pytest

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
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "disk: full"),
        ("ERROR", "disk: gone"),
        ("INFO", "well: 100 %"),
        ("WARNING", "disk: full"),
    ]


def test_an_end_can_be_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    latch = Latch(log)
    latch.update("full", "it is full")
    assert latch.update("")
    assert caplog.messages == ["it is full"]


def test_delays_double_up_to_a_limit() -> None:
    assert [delay_after(n, 0.5, 3) for n in (1, 2, 3, 4, 10**6)] == [0.5, 1, 2, 3, 3]


def test_jitter_leaves_at_least_half() -> None:
    assert all(1 <= jittered(2) <= 2 for _ in range(100))
