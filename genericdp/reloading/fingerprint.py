"""What can be seen of a config without reading it, and where to watch for changes."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.loaded import SUFFIXES
from genericdp.host.pathwalk import walk
from genericdp.host.root import upwards

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")
_VERSION = re.compile(r"/\.\.\d{4}_\d\d_\d\d_")
"""As the kubelet names the folders that ``..data`` leads to, one for each version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
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


def fingerprint(paths: Sequence[Path]) -> Fingerprint:
    """Look at the files and folders that make up a config; may hang where they lie."""
    marks: list[tuple[object, ...]] = []
    passed: set[str] = set()
    whole: set[str] = set()
    written: set[str] = set()
    for given in paths:
        path = os.path.join(os.getcwd(), given)
        end, on_the_way = _follow(path)
        passed |= on_the_way
        files, names = [path], _configs_in(path)
        if names is not None:
            whole.add(end)
            marks.append((path, *names))
            files = [os.path.join(path, name) for name in names]
        for file in files:
            end, on_the_way = _follow(file)
            passed |= on_the_way
            marks.append(_mark(file))
            written.add(os.path.dirname(end))
    return Fingerprint(
        marks=tuple(marks),
        passed=frozenset(passed),
        whole=frozenset(whole),
        written=frozenset(written | whole),
    )


def _follow(path: str) -> tuple[str, set[str]]:
    """Return where a path leads, and each link, folder and file on the way.

    What does not exist is among them: that is where it would appear.
    """
    walked = walk(path, past_missing=True)
    return walked.at, {part for one in (walked.at, *walked.links) for part in upwards(one)}


def _configs_in(path: str) -> list[str] | None:
    """Return the names of the configs in a folder; None: it is none, or cannot be read."""
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


def find_pinned(paths: Iterable[Path], files: Iterable[Path]) -> list[str]:
    """Return why files and folders of a config can never be seen to change on this machine."""
    try:
        mountinfo = _MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return pinned(mountinfo, map(os.path.realpath, paths), map(os.path.realpath, files))


def pinned(mountinfo: str, paths: Iterable[str], files: Iterable[str]) -> list[str]:
    """Return the same by the text of a mountinfo (see proc(5)), for paths without links.

    Of a file that is mounted by itself, another one that takes its place on the host is not seen.
    Of a folder, one version of a volume may be mounted, not the volume with its ``..data``.
    """
    roots = {}
    for line in mountinfo.splitlines():
        if len(fields := line.split(" ")) > 4:
            root, point = (_OCTAL.sub(lambda at: chr(int(at[1], 8)), one) for one in fields[3:5])
            roots[point] = root
    return [
        f"{file} is mounted by itself (subPath?), so an update that replaces it is never seen:"
        " mount its folder instead"
        for file in dict.fromkeys(files)
        if file in roots
    ] + [
        f"{path} is one version of its volume (subPath?), so an update is never seen:"
        " mount the whole volume instead"
        for path in dict.fromkeys(paths)
        if path in roots and _VERSION.search(f"{roots[path]}/")
    ]
