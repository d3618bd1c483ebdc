"""A slow command shows its progress on stderr, and ends with a reason."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.output import progress
from genericdp.cli.snapshot import copy_of
from genericdp.errors import GenericdpError
from genericdp.host.root import Root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE_SECONDS = 60.0


def test_a_slow_operation_says_again_and_again_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[str] = []
    often = threading.Event()

    def sentence() -> str:
        asked.append(f"{len(asked)} of 9")
        if len(asked) == 3:
            often.set()
        return asked[-1]

    with progress(sentence, quiet_seconds=0.001):
        assert often.wait(PATIENCE_SECONDS)
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", asked)


def test_a_quick_operation_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(lambda: "slow"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_failure_of_the_operation_ends_its_progress() -> None:
    before = threading.active_count()
    with pytest.raises(GenericdpError, match="no"), progress(lambda: "slow"):
        raise GenericdpError("no")
    assert threading.active_count() == before


def test_a_machine_that_takes_too_long_to_read_says_what_to_do(
    testbed: Callable[[str], Path],
) -> None:
    root = Root(testbed("can"))
    with pytest.raises(GenericdpError, match=r"more than 0 s: .* now /sys/.*give --root that"):
        copy_of(root, max_seconds=0.0)
    assert copy_of(root).entries
