"""Which files a config consists of, and their bytes: nothing here hangs or reads without end."""

from __future__ import annotations

import errno
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.loaded import STDIN, SUFFIXES, shown, unusable
from genericdp.host.pathwalk import NotAFileError, Walk, opened, read, walk
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.errors import Problem

MAX_BYTES = 1024 * 1024
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
    doubt: str = ""
    """Which link on the way an unprivileged user could redirect, as far as that is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What was read from a file."""

    text: bytes
    at: str = ""
    """The path that it was read from in the end."""
    doubt: str = ""
    """Which link on the way an unprivileged user could redirect; empty if none.

    Then nothing of the text may be shown: it may be of a file that only root can read.
    """


class _UnusableError(Exception):
    """A file or folder that no config can be read from."""


def sources(
    paths: Iterable[Path], stdin: bytes | None = None, pipes: Mapping[Path, bytes] | None = None
) -> tuple[list[Source], list[Problem]]:
    """Return the files of a config: each path itself, or what lies in it if it is a folder.

    STDIN stands for what is given as such, and ``pipes`` holds what others held.
    """
    found: list[Source] = []
    problems: list[Problem] = []
    versions = _Versions()
    for path in paths:
        if stdin is not None and path == STDIN:
            found.append(Source(name="<stdin>", path=path, text=stdin))
            continue
        if pipes and path in pipes:
            found.append(Source(name=shown(path), path=path, text=pipes[path]))
            continue
        try:
            files = _in_folder(path) if path.is_dir() else [path]
            found += map(versions.source, files)
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
        self._known: dict[Path, Walk] = {}

    def source(self, path: Path) -> Source:
        """Return a file of a mount where it really lies; any other file as it is."""
        folder = path.parent
        if folder not in self._known:
            self._known[folder] = walk(_absolute(folder / _DATA_LINK))
        version = self._known[folder]
        found = walk(_absolute(path))
        source = Source(name=shown(path), path=path, doubt=found.trouble)
        if version.error or not (version.links and found.links and path.is_symlink()):
            return source
        target = path.readlink().parts
        if target[:1] != (_DATA_LINK,) or ".." in target:
            return source
        doubt = version.trouble or found.trouble
        return replace(source, path=Path(version.at, *target[1:]), doubt=doubt)


def content(source: Source) -> Content | Problem:
    """Return the content of a file, or what keeps it from being read."""
    try:
        if source.text is not None:
            return Content(text=_limited(source.text))
        with opened(_absolute(source.path)) as (descriptor, found):
            # More is read than may be there: a file can grow after its size was asked.
            text = _limited(read(descriptor, MAX_BYTES + 1))
        return Content(text=text, at=found.at, doubt=source.doubt or found.trouble)
    except _UnusableError as error:
        return unusable(source.name, str(error))
    except NotAFileError as error:
        return unusable(source.name, error.strerror or "it is not a file")
    except OSError as error:
        return unusable(source.name, _why(error))


def _absolute(path: Path) -> str:
    # Not os.path.abspath: what ".." leads to depends on links.
    return os.fspath(Path.cwd() / path)


def _limited(text: bytes) -> bytes:
    if len(text) > MAX_BYTES:
        raise _UnusableError("it is larger than 1 MiB, the most that a config may have")
    return text


def unquoted(problems: Iterable[Problem], contents: Mapping[str, Content]) -> list[Problem]:
    """Return problems without those that would quote a file that an untrusted link leads to.

    Instead, there is one for each such file. ``contents`` are by the names of the files.
    """
    shown: list[Problem] = []
    hidden: Counter[str] = Counter()
    for problem in problems:
        if (of := contents.get(problem.file)) is not None and of.doubt:
            hidden[problem.file] += 1
        else:
            shown.append(problem)
    for name, count in hidden.items():
        of = contents[name]
        mistakes = "1 mistake that is" if count == 1 else f"{count} mistakes that are"
        message = f"it has {mistakes} not shown: {of.doubt}"
        hint = f"check {printable(of.at)} itself, or let only root change the link"
        shown.append(replace(unusable(name, message), hint=hint))
    return shown


def _why(error: OSError) -> str:
    known = _ADVICE.get(error.errno or 0)
    return known or f"it cannot be read: {(error.strerror or str(error)).lower()}"
