"""Watched system calls: another thread sees how long the current one has lasted.

This module also knows what hangs, for the whole process: no further call on such a filesystem is
begun.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

P = ParamSpec("P")
T = TypeVar("T")

Cause: TypeAlias = str | tuple[str, str]
"""The cause of a hang: a filesystem, by its number; a call, by its name and path; or a
human-readable activity.
"""


class HangsError(Exception):
    """A path that is known to hang was about to be read.

    Not an OSError, which would be an answer about the path.
    """


class Watched:
    """The work of a thread, and its current system call."""

    what = ""
    """What it reads, human-readable."""
    since: float | None = None
    """When its current system call began, on the monotonic clock; None if there is none."""
    call: tuple[str, str | int] | None = None
    """The name of that call, and the path or the descriptor that it is about."""
    path = ""
    """The path of the last call with a path: later descriptors were opened from it."""
    is_given_up = False
    """Whether its result is no longer needed, so that it should end."""
    has_ended = False
    """Whether the thread has finished it."""


class Patience:
    """Detects that one system call of watched work takes longer than some seconds.

    Time by which the watcher itself is late does not count: in a process that gets no processor,
    the watched thread makes no progress either.
    """

    def __init__(self, work: Watched, seconds: float) -> None:
        self.pause = seconds / _PARTS
        """How long to wait before each check."""
        self._work, self._seconds = work, seconds
        self._lasted, self._since, self._asked = 0.0, work.since, time.monotonic()

    def is_over(self) -> bool:
        """Check whether the call takes too long, once the pause is over."""
        # read once, because the thread continues meanwhile
        now, since = time.monotonic(), self._work.since
        if since is None or since != self._since:
            self._lasted = 0.0
        elif now - self._asked < 2 * self.pause:
            self._lasted += self.pause
        self._since, self._asked = since, now
        return self._lasted >= self._seconds


_OCTAL = re.compile(r"\\([0-7]{3})")
_BY_FILE = frozenset({"debugfs", "devpts", "devtmpfs", "proc", "sysfs", "tmpfs"})
"""Filesystems on which only a driver hangs, with one file. A container's /dev is a tmpfs."""
_PARTS = 4
"""How many checks to make in the time that a call may last."""
_thread = threading.local()
_hanging: dict[Watched, Cause] = {}
"""The hanging work and the cause of each hang: the only record of what hangs."""
_filesystems: Mapping[str, str] = {}
"""Filesystems by mount point, as of the last time that work was begun while something hung."""


def mounts() -> Iterator[tuple[str, str, str, str]]:
    """Yield the number of each mount's filesystem, the mounted part of it, the mount point, and its
    type.

    Nothing if that cannot be read.
    """
    with suppress(OSError), Path("/proc/self/mountinfo").open("rb") as lines:
        for fields in (os.fsdecode(line).split(" ") for line in lines):
            root, point = (
                _OCTAL.sub(lambda at: chr(int(at[1], 8)), field) for field in fields[3:5]
            )
            yield fields[2], root, point, fields[fields.index("-") + 1]


def _mounted() -> dict[str, str]:
    """Return the number of the filesystem at each mount point; empty if it cannot hang as a whole.

    No mount is touched for this.
    """
    numbers = {point: "" if kind in _BY_FILE else number for number, _, point, kind in mounts()}
    # Without this filesystem nothing runs, whatever hangs there.
    return {
        point: "" if number == numbers.get("/") else number for point, number in numbers.items()
    }


def watch(work: Watched | None) -> None:
    """Record the system calls of this thread in its work from now on."""
    global _filesystems
    _thread.work = work
    if work is not None and _hanging:
        _filesystems = _mounted()


def looking_at(what: str) -> None:
    """Record what this thread reads from now on."""
    if (work := getattr(_thread, "work", None)) is not None:
        work.what = what


def give_up(work: Watched, *, only_call: bool = False) -> bool:
    """Record the cause of a hang until ``release``; return whether it is a whole filesystem.

    Otherwise, or with ``only_call``, it is the call, or the work itself.
    """
    global _filesystems
    cause: Cause = work.what
    filesystem = ""
    if (call := work.call) is not None:
        name, place = call
        path = real = work.path if isinstance(place, int) else place
        if isinstance(place, int):
            with suppress(OSError):  # it has just been closed
                real = os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115
        _filesystems = _mounted()
        filesystem = "" if only_call else _filesystem_of(real)
        cause = filesystem or (name, path)
    _hanging[work] = cause
    if work.has_ended:  # in this moment: its thread has not found it there
        release(work)
    return bool(filesystem)


def release(work: Watched) -> None:
    """Record that work has ended, so that its cause no longer hangs."""
    work.has_ended = True
    _hanging.pop(work, None)


def hangs(cause: Cause) -> bool:
    """Return whether a cause is known to hang."""
    return cause in _hanging.copy().values()


def _filesystem_of(path: str) -> str:
    """Return the filesystem of a path without links; empty if it never hangs as a whole."""
    while path.startswith("/"):
        if (found := _filesystems.get(path)) is not None:
            return found
        path = path.rpartition("/")[0]
    return ""


def _refuse(name: str, path: str, work: Watched | None) -> None:
    known = _hanging.copy().values()  # other threads add to it
    is_given_up = work is not None and work.is_given_up
    filesystem = _filesystem_of(path)
    if is_given_up or (name, path) in known or (filesystem and filesystem in known):
        raise HangsError(path)


def watched(call: Callable[P, T]) -> Callable[P, T]:
    """Return a function whose calls are recorded in the work of the calling thread.

    Its first argument is a path or a descriptor. The function raises HangsError if that is known to
    hang.
    """
    name = call.__name__

    @wraps(call)
    def noted(*args: P.args, **options: P.kwargs) -> T:
        work: Watched | None = getattr(_thread, "work", None)
        place = args[0]
        if _hanging:
            path = place if isinstance(place, str) else "" if work is None else work.path
            _refuse(name, path, work)
        if work is None:
            return call(*args, **options)
        # No context manager: that costs three times as much, 20,000 times in a scan.
        if isinstance(place, str):
            work.path = place
        work.call = (name, place)  # type: ignore[assignment]  # by contract
        outer, work.since = work.since, time.monotonic()
        try:
            return call(*args, **options)
        finally:
            work.call = None
            work.since = outer and time.monotonic()

    return noted


@watched
def open_at(path: str, directory: int, flags: int) -> int:
    """Open the last part of a path in a directory that is open."""
    return os.open(path.rpartition("/")[2], flags, dir_fd=directory)


@watched
def lstat(path: str) -> os.stat_result:
    """Return the status of a path itself."""
    return os.lstat(path)  # looked up each time, because tests replace it


@watched
def reopen(descriptor: int, flags: int) -> int:
    """Open the file for which a descriptor was opened with O_PATH."""
    return os.open(f"/proc/self/fd/{descriptor}", flags)


@watched
def readlink_of(descriptor: int) -> str:
    """Return the target of a link for which a descriptor was opened."""
    return os.readlink("", dir_fd=descriptor)


fstat = watched(os.fstat)
fstatvfs = watched(os.fstatvfs)
isdir = watched(os.path.isdir)
listdir = watched(os.listdir)
open = watched(os.open)  # noqa: A001
read = watched(os.read)
readlink = watched(os.readlink)
stat = watched(os.stat)
