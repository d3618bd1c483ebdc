"""Programs in processes of their own, where nothing has been imported yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parent.parent


def last_line(program: str) -> str:
    """What a program of Python says last; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.fspath(_REPOSITORY)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]
