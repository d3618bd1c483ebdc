"""Device nodes that are made and removed at will, by root: their numbers have no driver."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = Path(f"/dev/genericdp-bench-{os.getpid()}")
"""Of this run alone, so that devtmpfs reports the nodes as it does all others."""
_MAJOR = 241
"""For local use, says the kernel's list of devices: no driver answers."""
_FOREIGN = Path("/sys/devices/virtual/mem/null/uevent")


@contextmanager
def nodes(count: int) -> Iterator[None]:
    """Make this many nodes; all are removed at the end."""
    DIRECTORY.mkdir()
    try:
        for number in range(count):
            make(number)
        yield
    finally:
        shutil.rmtree(DIRECTORY)


def make(number: int) -> None:
    """Make ``thing-NUMBER``."""
    path = DIRECTORY / f"thing-{number}"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(_MAJOR, number))


def remove(number: int) -> None:
    """Remove ``thing-NUMBER``."""
    (DIRECTORY / f"thing-{number}").unlink()


def tell_of_another() -> None:
    """Have the kernel report a change of /dev/null, which no config is about."""
    _FOREIGN.write_text("change", encoding="ascii")
