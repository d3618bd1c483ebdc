"""An hour of a busy node, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("how", [["--hours=1"], ["--hours=0.3", "--pause=15", "--restarts"]])
def test_nothing_grows_in_an_hour(how: list[str]) -> None:
    """As ``make day``, in which the slopes of memory count as well."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.day", *how, "--seed=1"],
        cwd=_REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("nothing grows\n")
