"""A mount on which every look hangs, as of a server that is missing."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DETACH = 2  # of umount2(2)
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def hanging_mount(directory: Path) -> Iterator[Path]:
    """Mount a FUSE file system that no process answers; at the end all that hang on it go on."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system that hangs")
    directory.mkdir(exist_ok=True)
    connection = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={connection},rootmode=40000,user_id=0,group_id=0".encode()
    _checked(_libc.mount(b"hanging", os.fsencode(directory), b"fuse", 0, options))
    try:
        yield directory
    finally:
        os.close(connection)  # before it is unmounted, which would hang, too
        _checked(_libc.umount2(os.fsencode(directory), _DETACH))


def _checked(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
