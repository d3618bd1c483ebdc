"""Config files that are mounted by themselves: an update of their ConfigMap never reaches them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")
_VERSION = re.compile(r"/\.\.\d{4}_\d\d_\d\d_")
"""As the kubelet names the folders that ``..data`` leads to, one for each version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MountInfo:
    """One line of ``/proc/self/mountinfo``: what of a filesystem is mounted where."""

    root: str
    point: str


def mounts(text: str) -> Iterator[MountInfo]:
    """Take the text of a mountinfo apart (see proc(5))."""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 4:
            yield MountInfo(root=_plain(fields[3]), point=_plain(fields[4]))


def _plain(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)


def pinned(files: Iterable[str], folders: Iterable[str], mounts: Iterable[MountInfo]) -> list[str]:
    """Say of which files (absolute paths) and folders no update can ever be seen, and why.

    A file: another one that takes its place on the host is not seen, for the mount is of the old.
    A folder: one version of a volume is mounted, not the volume with its ``..data``.
    """
    by_point = {one.point: one for one in mounts}
    return [
        f"{file} is mounted by itself (subPath?), so an update that replaces it is never seen:"
        " mount its folder instead"
        for file in files
        if file in by_point
    ] + [
        f"{folder} is one version of its volume (subPath?), so an update is never seen:"
        " mount the whole volume instead"
        for folder in folders
        if folder in by_point and _VERSION.search(f"{by_point[folder].root}/")
    ]


def pinned_here(paths: Iterable[Path], files: Iterable[Path]) -> list[str]:
    """Say the same of the paths of a config and the files it was read from, on this machine."""
    try:
        text = _MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return pinned(_real(files), _real(paths), mounts(text))


def _real(paths: Iterable[Path]) -> list[str]:
    """Give paths as mountinfo does: absolute and without links."""
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))
