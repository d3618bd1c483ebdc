"""What the globs have found, until something tells that an entry or a device has changed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.foldermap import FolderMap
from genericdp.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from genericdp.devices.inventory import FoundFile, Look
    from genericdp.host.devicefiles import Looker

_FEW = 100
"""So many files are put into their places one by one."""


class Looks:
    """Remembers looks at globs.

    It is right as long as it is told of every entry that comes, goes or changes in ``folders``,
    and of every event of a device. What nothing tells of, it does not remember.
    """

    def __init__(self, before: Looks | None = None) -> None:
        self.folders: set[str] = set()
        """Where a change could change a look."""
        self._looks: dict[str, Look] = {}
        self._untold: dict[str, Look] = {}
        """Those of this pass that are not remembered."""
        self._before: dict[str, Look] = {} if before is None else before.all()
        """What was found earlier, for what cannot be read now."""
        self._wide: dict[str, dict[str, None]] = {}
        """By a folder, the globs for which more than one entry of it counts."""
        self._ways: set[str] = set()
        """The folders in which the globs lead somewhere, whether they exist or not."""
        self._devices: FolderMap[str] = FolderMap()
        """The paths of the files of devices."""
        self._unknown: dict[str, tuple[str, ...]] = {}
        """The paths of nodes that sysfs does not know, by type and number; mostly one."""

    def get(self, pattern: str) -> Look | None:
        """Give what a glob has found, if that is known."""
        return self._looks.get(pattern)

    def last(self, pattern: str) -> Look | None:
        """Give what a glob has found the last time, if it was ever looked at."""
        return self._looks.get(pattern) or self._untold.get(pattern) or self._before.get(pattern)

    def all(self) -> dict[str, Look]:
        """Give the last look of each glob."""
        return {**self._before, **self._untold, **self._looks}

    def settle(self) -> None:
        """Forget what was found earlier: by now all that anybody asks for was looked at again."""
        self._before = {}

    def keep(self, pattern: str, look: Look) -> None:
        """Remember a look."""
        self.folders |= look.folders
        if look.trouble or not _is_told(pattern, look):
            self._untold[pattern] = look
            return
        self._looks[pattern] = look
        # No links are in sysfs' own folders, and an event tells of each device.
        ways = (_folder_of(pattern), *look.folders)
        self._ways.update(way for way in ways if not way.startswith("/sys/devices/"))
        if glob.has_wildcard(pattern) or not look.plain:
            for folder in (*look.folders, *(_parent(one.path) for one in look.files)):
                self._wide.setdefault(folder, {})[pattern] = None
        for file in look.files:
            self._index(file)

    def _index(self, file: FoundFile) -> None:
        syspath = file.identity.syspath
        if syspath is not None:
            if file.path not in self._devices.of(syspath):
                self._devices.add(syspath, file.path)
        elif file.identity.device_number is not None:
            known = self._unknown.get(file.key, ())
            if file.path not in known:
                self._unknown[file.key] = (*known, file.path)

    def paths_of(self, syspath: str, key: str) -> list[str]:
        """Give the paths whose files an event of a device is about; ``key`` is its node's."""
        return [*self._devices.take(syspath), *self._unknown.pop(key, ())]

    def renew(self, paths: Collection[str], looker: Looker) -> set[str]:
        """Look again at entries that may have changed; give the globs that find something else."""
        changed = set(self._untold)
        self._before |= self._untold
        self._untold = {}
        if any(map(self._leads_through, paths)):
            changed |= self._looks.keys()
            self._forget_all()
            return changed
        concerned: dict[str, list[str]] = {}
        for path in paths:
            for pattern in self._concerned(path):
                concerned.setdefault(pattern, []).append(path)
            file = looker.examine(path)
            if file is not None:
                self._index(file)
        for pattern, those in concerned.items():
            before = self._looks[pattern]
            now = _amended(pattern, before, those, looker)
            if now is before:
                continue
            changed.add(pattern)
            if now is None:
                self._before[pattern] = self._looks.pop(pattern)
            else:
                self._looks[pattern] = now
        return changed

    def _leads_through(self, path: str) -> bool:
        """Say whether the path is that of a folder through which a glob leads."""
        return any(way == path or way.startswith(f"{path}/") for way in self._ways)

    def _concerned(self, path: str) -> list[str]:
        globs = [glob.escape(path), *self._wide.get(_parent(path), ())]
        return [one for one in dict.fromkeys(globs) if one in self._looks]

    def _forget_all(self) -> None:
        self._before |= self._looks
        self._looks.clear()
        self._wide.clear()
        self._unknown.clear()
        self._devices = FolderMap()


def _is_told(pattern: str, look: Look) -> bool:
    """Say whether there are events of what could change a look: inotify tells none of sysfs."""
    if pattern.startswith("/sys/devices/") and not glob.has_wildcard(pattern):
        # A file of a device may come without an event of its own.
        return look.plain and bool(look.files)
    return not any(f"{folder}/".startswith(("/sys/", "/proc/")) for folder in look.folders)


def _amended(pattern: str, look: Look, paths: Iterable[str], looker: Looker) -> Look | None:
    """Give the look with these paths as they are now, the same if nothing changed; None: anew."""
    folder, _, segment = pattern.rpartition("/")
    if not look.plain or glob.has_wildcard(folder):
        return None
    here, now = glob.unescape(folder), {}
    for path in paths:
        above, _, name = path.rpartition("/")
        if above != here:
            return None
        hidden = name.startswith(".") and not segment.startswith(".")
        if hidden or not glob.matches(segment, name):
            continue
        now[path] = looker.examine(path)
        if _is_link(now[path], path, looker):
            return None
    files = _with(look.files, now)
    return look if files == look.files else replace(look, files=files)


def _is_link(file: FoundFile | None, path: str, looker: Looker) -> bool:
    """Say whether there is a link, which may lead nowhere."""
    return looker.is_entry(path) if file is None else file.is_link


def _with(
    files: tuple[FoundFile, ...], now: Mapping[str, FoundFile | None]
) -> tuple[FoundFile, ...]:
    """Give the files, in natural order of their paths, with some of them as they are now."""
    if len(now) > _FEW:  # to copy all for each of very many would take far longer
        known = {**{one.path: one for one in files}, **now}
        return tuple(
            file for path in sorted(known, key=natural_key) if (file := known[path]) is not None
        )
    for path, file in now.items():
        at = bisect_left(files, natural_key(path), key=lambda one: natural_key(one.path))
        there = [one for one in files[at : at + 1] if one.path == path]
        here = [] if file is None else [file]
        if here != there:
            files = (*files[:at], *here, *files[at + len(there) :])
    return files


def _folder_of(pattern: str) -> str:
    """Give the folder in which the pattern begins to look, as far as that is written out."""
    folder = _parent(pattern)
    while glob.has_wildcard(folder):
        folder = _parent(folder)
    return glob.unescape(folder)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
