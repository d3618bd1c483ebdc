"""Cgroups with limits, where this process may make some."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/sys/fs/cgroup")
LIMITS = {
    # controller: its file in version 1, in version 2
    "pids": ("pids.max", "pids.max"),
    "memory": ("memory.limit_in_bytes", "memory.max"),
}


@contextmanager
def cgroup(**limits: int) -> Iterator[list[Path]]:
    """Give the ``cgroup.procs`` to join, so that the limits hold; skips the test where it cannot.

    Whatever is left in it at the end is killed.
    """
    name = f"genericdp-test-{os.getpid()}"
    old = not (ROOT / "cgroup.controllers").exists()
    made: list[Path] = []
    try:
        for controller, limit in limits.items():
            directory = (ROOT / controller if old else ROOT) / name
            if directory not in made:
                directory.mkdir()
                made.append(directory)
            (directory / LIMITS[controller][not old]).write_text(str(limit))
    except OSError as error:
        _remove(made)
        pytest.skip(f"no cgroup with limits can be made here: {error}")
    try:
        yield [directory / "cgroup.procs" for directory in made]
    finally:
        _remove(made)


@contextmanager
def freezer() -> Iterator[Path]:
    """Give a cgroup of version 1 that can freeze what is in it: not even SIGKILL ends that."""
    directory = ROOT / f"freezer/genericdp-test-{os.getpid()}"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup that freezes can be made here: {error}")
    try:
        yield directory
    finally:
        (directory / "freezer.state").write_text("THAWED")
        _remove([directory])


def _remove(directories: list[Path]) -> None:
    for directory in directories:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for pid in (directory / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            try:
                directory.rmdir()
            except OSError:  # what was killed is not gone yet
                time.sleep(0.01)  # noqa: TID251 -- polls what has no event
            else:
                break
