"""Files that exist completely or not at all, even after a crash, and locks on them."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from genericdp.host.pathwalk import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

_TEMPORARY = ".genericdp-"


@contextmanager
def opened(path: Path, *, follow: bool) -> Iterator[int]:
    """Open a regular file for reading; with ``follow``, even through links.

    Raise ValueError for anything else, and OSError. Opening a pipe would block, and reading a
    device might never end.
    """
    if not stat.S_ISREG(path.stat(follow_symlinks=follow).st_mode):
        raise ValueError("it is not a regular file")
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most this many bytes; raise as ``opened``."""
    with opened(path, follow=True) as descriptor:
        content = read(descriptor, most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def write(path: Path, content: bytes, *, mode: int = 0o644) -> int:
    """Write a file completely or not at all; return a descriptor that holds a lock on it.

    Raise OSError.
    """
    try:
        descriptor, temporary = _locked_temporary(path.parent)
    except OSError as error:
        error.filename = str(path.parent)  # not a temporary name
        raise
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        os.replace(temporary, path)  # noqa: PTH105
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # on a full disk, the error names no file
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    return descriptor


def _locked_temporary(directory: Path) -> tuple[int, str]:
    while True:
        descriptor, path = tempfile.mkstemp(prefix=_TEMPORARY, dir=directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # Until it was locked, another process could treat it as left over.
            if os.fstat(descriptor).st_nlink:
                return descriptor, path
        except OSError:  # a filesystem without locks
            os.close(descriptor)
            os.unlink(path)  # noqa: PTH108
            raise
        os.close(descriptor)


def lock(descriptor: int, *, exclusive: bool) -> bool:
    """Lock a file for as long as the descriptor, or a copy of it, is open.

    Return whether that was possible at once; raise OSError on a filesystem without locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_temporary(directory: Path) -> None:
    """Remove temporary files in a directory that ``write`` left when its process was killed."""
    with suppress(OSError):
        for path in directory.glob(f"{_TEMPORARY}*"):
            with suppress(OSError, ValueError), opened(path, follow=False) as descriptor:
                if lock(descriptor, exclusive=True):
                    path.unlink(missing_ok=True)


def put_aside(path: Path) -> None:
    """Rename a damaged file, and log that; raise OSError."""
    new = path.replace(path.with_suffix(".bad")).name
    log.warning("%s is damaged and was renamed to %s", path, new)
