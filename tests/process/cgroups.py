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
            folder = (ROOT / controller if old else ROOT) / name
            if folder not in made:
                folder.mkdir()
                made.append(folder)
            (folder / LIMITS[controller][not old]).write_text(str(limit))
    except OSError as error:
        _remove(made)
        pytest.skip(f"no cgroup with limits can be made here: {error}")
    try:
        yield [folder / "cgroup.procs" for folder in made]
    finally:
        _remove(made)


@contextmanager
def freezer() -> Iterator[Path]:
    """Give a cgroup of version 1 that can freeze what is in it: not even SIGKILL ends that."""
    folder = ROOT / f"freezer/genericdp-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup that freezes can be made here: {error}")
    try:
        yield folder
    finally:
        (folder / "freezer.state").write_text("THAWED")
        _remove([folder])


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            try:
                folder.rmdir()
            except OSError:  # what was killed is not gone yet
                time.sleep(0.01)  # noqa: TID251 -- polls what has no event
            else:
                break
