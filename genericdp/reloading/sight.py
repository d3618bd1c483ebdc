"""What there is to see of a config without reading it, and where to look for changes."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.config.loaded import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_MOST_LINKS = 40
"""As many as the kernel follows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """Two that are equal are of one config."""

    marks: tuple[tuple[object, ...], ...]
    """Of each file: which one it is and when it changed last, or why that cannot be known."""
    passed: frozenset[str]
    """Each link and folder on the way to a file, and the file: what may turn into another."""
    whole: frozenset[str]
    """The folders of which every entry counts."""
    written: frozenset[str]
    """Those that hold the files: where something that is written to may be another config."""

    @property
    def folders(self) -> frozenset[str]:
        """Return the folders in which a change may mean another config."""
        return self.whole | {os.path.dirname(path) for path in self.passed}

    def concerns(self, folder: str, name: str | None) -> bool:
        """Return whether a change of an entry may mean another config; None: of any entry."""
        return name is None or folder in self.whole or os.path.join(folder, name) in self.passed


def look(paths: Sequence[Path]) -> Sight:
    """Look at the files and folders that make up a config; may hang where they lie."""
    marks: list[tuple[object, ...]] = []
    passed: set[str] = set()
    whole: set[str] = set()
    written: set[str] = set()
    for given in paths:
        path = os.path.join(os.getcwd(), given)
        passed.update(_way_to(path))
        names = _configs_in(path)
        if names is None:
            marks.append(_mark(path))
            written.add(_folder_of(path))
            continue
        whole.add(os.path.realpath(path))
        marks.append((path, *names))
        for name in names:
            passed.update(_way_to(os.path.join(path, name)))
            marks.append(_mark(os.path.join(path, name)))
            written.add(_folder_of(os.path.join(path, name)))
    return Sight(
        marks=tuple(marks),
        passed=frozenset(passed),
        whole=frozenset(whole),
        written=frozenset(written | whole),
    )


def _folder_of(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _configs_in(path: str) -> list[str] | None:
    """Give the names of the configs in a folder; None: it is none, or cannot be read."""
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return None
    return [name for name in names if not name.startswith(".") and name.endswith(SUFFIXES)]


def _mark(path: str) -> tuple[object, ...]:
    try:
        status = os.stat(path)
    except OSError as error:
        return (path, error.errno)
    # Both times: one can be set at will, the other one misses what is swapped in.
    changed = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if stat.S_ISDIR(status.st_mode):  # one that cannot be read, whatever goes on in it
        changed = (0, 0, status.st_ctime_ns)
    return (path, status.st_dev, status.st_ino, status.st_mode, *changed)


def _way_to(path: str) -> Iterator[str]:
    """Give each link, folder and file that is passed on the way, by its real folder and its name.

    What does not exist is given as well: that is where it would appear.
    """
    at, rest, links = "/", _parts(path), 0
    while rest:
        name = rest.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        at_once = os.path.join(at, name)
        yield at_once
        try:
            target = os.readlink(at_once)
        except OSError:
            at = at_once
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        if target.startswith("/"):
            at = "/"
        rest += _parts(target)


def _parts(path: str) -> list[str]:
    """Give what a path consists of, the last one first."""
    parts: Iterable[str] = reversed(path.split("/"))
    return [part for part in parts if part not in {"", "."}]
