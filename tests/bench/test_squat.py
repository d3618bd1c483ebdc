"""The program to measure against is read before anything is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_a_missing_squat_is_refused_with_the_command_that_builds_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "--squat", str(tmp_path / "missing")]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "go install github.com/squat/generic-device-plugin@latest" in run.stderr
