"""Programs in processes of their own, where nothing has been imported yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

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


def close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close the pipes to a process that has ended: asyncio has no public way."""
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
