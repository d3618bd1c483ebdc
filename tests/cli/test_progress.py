from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.progress import Progress

if TYPE_CHECKING:
    import pytest


def test_it_is_silent_at_first_and_then_speaks_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [100.0]
    progress = Progress("reading", clock=lambda: now[0])
    for at in (100.5, 101.9, 102.0, 103.9, 104.1):
        now[0] = at
        progress.tell(int(at * 10), "/sys")
    assert capsys.readouterr().err == (
        "reading: 1,020 entries, now /sys\nreading: 1,041 entries, now /sys\n"
    )
