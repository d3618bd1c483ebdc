"""Which files a config consists of, and their bytes: nothing here hangs or reads without end."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.errors import Problem
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

STDIN = Path("-")
"""Stands for the config that somebody else has read from stdin."""
MAX_BYTES = 1024 * 1024
SUFFIXES = (".yaml", ".yml")
_DATA_LINK = "..data"
_ADVICE = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "it cannot be read: permission denied",
    errno.ELOOP: "it is a symbolic link that leads to itself",
    errno.ENOTDIR: "a part of its path is no folder",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One file: how messages call it, and where it is read from."""

    name: str
    path: Path
    text: bytes | None = None
    """Its content, where that has been read already."""


class _UnusableError(Exception):
    """A file or folder that no config can be read from."""


def sources(
    paths: Sequence[Path], stdin: bytes | None = None
) -> tuple[list[Source], list[Problem]]:
    """Give the files of a config: each path itself, or what lies in it if it is a folder.

    STDIN stands for what is given as such.
    """
    found: list[Source] = []
    problems: list[Problem] = []
    versions = _Versions()
    for path in paths:
        if stdin is not None and path == STDIN:
            found.append(Source(name="<stdin>", path=path, text=stdin))
            continue
        try:
            files = _in_folder(path) if path.is_dir() else [path]
            found += [Source(name=shown(one), path=versions.file(one)) for one in files]
        except _UnusableError as error:
            problems.append(unusable(path, str(error)))
        except OSError as error:
            problems.append(unusable(path, _why(error)))
    return found, problems


def _in_folder(folder: Path) -> list[Path]:
    names = sorted(entry.name for entry in folder.iterdir())
    found = [
        folder / name for name in names if not name.startswith(".") and name.endswith(SUFFIXES)
    ]
    if not found:
        raise _UnusableError("the folder holds no config: no *.yaml or *.yml that is not hidden")
    return found


class _Versions:
    """Follows each folder's ``..data`` once: a ConfigMap mount swaps it, and all files of one pass
    are to be of one version.
    """

    def __init__(self) -> None:
        self._known: dict[Path, Path | None] = {}

    def file(self, path: Path) -> Path:
        """Give where a file of a mount really lies; any other file as it is."""
        folder = path.parent
        if folder not in self._known:
            data = folder / _DATA_LINK
            self._known[folder] = data.resolve() if data.is_symlink() else None
        version = self._known[folder]
        if version is None or not path.is_symlink():
            return path
        target = path.readlink()
        return version.joinpath(*target.parts[1:]) if target.parts[:1] == (_DATA_LINK,) else path


def content(source: Source) -> bytes | Problem:
    """Give the bytes of a file, or what keeps it from being read."""
    try:
        if source.text is not None:
            return _limited(source.text)
        # Asked before it is opened: opening a serial port can already reset what hangs on it.
        _refuse_unless_regular(source.path.stat().st_mode)
        return _read(source.path)
    except _UnusableError as error:
        return unusable(source.name, str(error))
    except OSError as error:
        return unusable(source.name, _why(error))


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        _refuse_unless_regular(os.fstat(descriptor).st_mode)
        # More is read than may be there: a file can grow after its size was asked.
        return _limited(file.read(MAX_BYTES + 1) or b"")  # None: it would have to be waited for


def _limited(text: bytes) -> bytes:
    if len(text) > MAX_BYTES:
        raise _UnusableError("it is larger than 1 MiB, the most that a config may have")
    return text


def _refuse_unless_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise _UnusableError(f"it is {_kind(mode)}, not a file")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


def unusable(name: str | Path, message: str) -> Problem:
    """Make the problem of a file as a whole."""
    return Problem(file=shown(name), line=1, column=1, path="", message=message)


def shown(name: str | Path) -> str:
    """Give a file's name as one printable line, whatever bytes it consists of."""
    return printable(os.fsencode(name).decode("utf-8", "backslashreplace"))


def _why(error: OSError) -> str:
    known = _ADVICE.get(error.errno or 0)
    return known or f"it cannot be read: {(error.strerror or str(error)).lower()}"
