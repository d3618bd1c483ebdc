"""Looks for device files, folders and files by glob, and says which may be handed out."""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp import glob as globs
from genericdp.devices.inventory import FoundFile, Identity, Look
from genericdp.devices.natural import natural_key
from genericdp.host.links import way_of
from genericdp.host.pathwalk import Walk
from genericdp.host.root import ABSENT
from genericdp.host.sysfs import device_names, plugged_of, syspath_of
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from genericdp.devices.sysdevice import Way
    from genericdp.host.root import Root
    from genericdp.host.sysdevices import Guard

_DEVPTS = "/dev/pts"
_UNTOLD = ("/sys/", "/proc/")
"""Where inotify tells of nothing."""
_MAGIC = re.compile(r"[*?[]")


@dataclass(slots=True)
class _Trail:
    """Where an expansion has been."""

    paths: list[str] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    plain: bool = True
    """Whether no link was met."""
    trouble: str = ""
    """What could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Way:
    """How a path is followed."""

    folders: frozenset[str]
    """Where a change could let it lead elsewhere."""
    through: frozenset[str]
    """It, each link on the way, and what it leads to or would if that were there."""
    plain: bool
    """Whether no link was met."""


class _Stale:
    """What may have changed."""

    def __init__(self, paths: frozenset[str], syspaths: frozenset[str]) -> None:
        self.folders = frozenset(map(_parent, paths))
        self._paths = paths
        self._syspaths = syspaths

    def concerns(self, path: str) -> bool:
        """Say whether a path, or a folder that it lies in, may have changed."""
        return bool(self._paths) and not self._paths.isdisjoint(_upwards(path))

    def is_about(self, file: FoundFile) -> bool:
        """Say whether a file is that of a device that may have changed, or of none so far."""
        if not self._syspaths or file.identity.device_number is None is file.identity.syspath:
            return False
        syspath = file.identity.syspath
        return syspath is None or not self._syspaths.isdisjoint(_upwards(syspath))


@dataclass(slots=True)
class _Answers:
    """What a root has said, by path."""

    files: dict[str, FoundFile | None] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    """What is in a folder, sorted."""

    def copy(self) -> _Answers:
        """Return the same answers; a thread may be adding to these."""
        return _Answers(dict(self.files), dict(self.names))


class DeviceFiles:
    """Remembers what is at the paths of a root until it is told that something has changed.

    What cannot be read is what it was when it could be: no error is an absence.
    """

    def __init__(
        self,
        root: Root,
        before: DeviceFiles | None = None,
        *,
        guard: Guard = lambda _, read: read(),
    ) -> None:
        self._root = root
        self._guard = guard
        self._now = _Answers()
        self._before = _Answers() if before is None else before.known()
        """What was said of what is out of date, for what cannot be read now."""
        self._ways: dict[str, _Way] = {}
        """Of folders, of links, and of what is not there."""
        self._resolved: dict[str, str] = {}
        self._troubles: dict[str, str] = {}
        """What is there, for all we know, but cannot be read: why."""
        self._filesystems: dict[str, int | None] = {}
        self._nodes_of_copy: Mapping[str, tuple[FileType, tuple[int, int] | None]] | None = None

    def known(self) -> _Answers:
        """Return the last answer about each path."""
        before, now = self._before.copy(), self._now.copy()
        return _Answers(before.files | now.files, before.names | now.names)

    def settle(self) -> None:
        """Forget what is out of date but for what cannot be read: the rest is asked for no more."""
        troubled = self._troubles.keys()
        files, names = self._before.files, self._before.names
        self._before = _Answers(
            {path: files[path] for path in troubled & files.keys()},
            {path: names[path] for path in troubled & names.keys()},
        )

    def forget_all(self) -> None:
        """Ask about every path again."""
        self._before, self._now = self.known(), _Answers()
        self._ways.clear()
        self._resolved.clear()
        self._troubles.clear()

    def forget(self, paths: Collection[str], syspaths: Collection[str]) -> None:
        """Ask again about paths that may have changed, and what such devices have to do with.

        And about all that nothing tells of: what cannot be read, and what lies in sysfs or /proc.
        """
        stale = _Stale(frozenset(paths), frozenset(syspaths))
        files, names = self._now.files, self._now.names
        ways = self._ways.items()
        changed = {path for path, way in ways if any(map(stale.concerns, way.through))}
        for path in changed:
            del self._ways[path]
        self._resolved.clear()
        for path, file in list(files.items()):
            if (
                path in changed
                or path in self._troubles
                or stale.concerns(path)
                or not _is_told_of(path, file)
                or (file is not None and stale.is_about(file))
            ):
                self._before.files[path] = files.pop(path)
        for folder in list(names):
            if (
                folder in self._troubles
                or folder in changed
                or folder in stale.folders
                or stale.concerns(folder)
                or f"{folder}/".startswith(_UNTOLD)
            ):
                self._before.names[folder] = names.pop(folder)
        self._troubles.clear()
        self._nodes_of_copy = None

    def look(self, pattern: str) -> Look:
        """Give everything that the glob finds, in natural order; raises nothing."""
        trail = _Trail()
        self._expand("", [part for part in pattern.split("/") if part not in {"", "."}], trail)
        files, dangling = [], []
        for path in sorted(set(trail.paths), key=natural_key):
            found = self.examine(path)
            if found is not None:
                files.append(found)
            elif self._is_link(path):
                dangling.append(path)
            trail.trouble = trail.trouble or self._troubles.get(path, "")
            if found is None or found.is_link:
                # Its links may be turned elsewhere, and what they lead to may come and go.
                self._follow(path, trail)
        lost = not (files or trail.plain or globs.has_wildcard(pattern))
        return Look(
            files=tuple(files),
            folders=frozenset(trail.folders),
            trouble=trail.trouble,
            lost=way_of(self._root, globs.unescape(pattern)) if lost else None,
            dangling=tuple(dangling),
        )

    def examine(self, path: str) -> FoundFile | None:
        """Give what a path leads to, or None if there is nothing."""
        files = self._now.files
        if path not in files:
            file: FoundFile | None = None
            try:
                file = self._examined(path)
            except OSError as error:
                if self._note_trouble(path, error):
                    file = self._before.files.get(path)
            files[path] = file
            if file is None or file.is_link:
                self._way(path)
        return files[path]

    def way(self, path: str) -> Way:
        """Give where a path leads, or would if all that is missing were there."""
        if (found := self.examine(path)) is None:
            return way_of(self._root, path)
        return found.way

    def trouble(self, path: str) -> str:
        """Return why a path that was examined cannot be read; empty if it was, or is not there."""
        return self._troubles.get(path, "")

    def _note_trouble(self, path: str, error: OSError) -> bool:
        """Take note of an error; return whether it is something else than an absence."""
        if error.errno in ABSENT:
            return False
        self._troubles[path] = f"{path} cannot be read ({error.strerror or error})"
        return True

    def _examined(self, path: str) -> FoundFile:
        walk, status = self._resolve(path)
        target = walk.at
        file_type, number = self._type_and_number(target, status)
        if number is not None:
            syspath = syspath_of(self._root, file_type, number)
        else:
            # A device without a file is known by its folder.
            syspath = target if target.startswith("/sys/devices/") else None
        trouble = _name_trouble(path) or (_name_trouble(target) if target != path else "")
        if number is not None:
            trouble = trouble or self._node_trouble(walk, status)
        trouble = trouble or walk.trouble
        return FoundFile(
            path=path,
            target=target,
            type=file_type,
            identity=Identity(
                inode=status.st_ino,
                device_number=number,
                syspath=syspath,
                plugged=plugged_of(self._read, file_type, syspath),
            ),
            trouble=trouble or (self._link_trouble(path, status) if walk.links else ""),
            mount_trouble=trouble,
        )

    def _read(self, path: str) -> str:
        return self._guard(path, lambda: self._root.read_text(path))

    def _resolve(self, path: str) -> tuple[Walk, os.stat_result]:
        # Most paths are plain entries of few folders: follow the folder's links once.
        folder, _, name = path.rpartition("/")
        if folder not in self._resolved:
            walk = self._root.resolve(folder)
            if not walk.links:
                self._resolved[folder] = "" if walk.at == "/" else walk.at
        if folder in self._resolved:
            # Nearly always the path itself: one text then, of which there may be 100,000.
            known = self._resolved[folder]
            plain = path if known == folder else f"{known}/{name}"
            status = self._root.lstat(plain)
            if not stat.S_ISLNK(status.st_mode):
                return Walk(at=plain), status
        walk = self._root.resolve(path)
        return walk, self._root.lstat(walk.at)

    def _expand(self, at: str, segments: list[str], trail: _Trail) -> None:
        for i, segment in enumerate(segments):
            if globs.has_wildcard(segment):
                self._expand_wildcard(at, segment, segments[i + 1 :], trail)
                return
            at = f"{at}/{globs.unescape(segment)}"
        self._follow(at.rpartition("/")[0], trail)
        trail.paths.append(at)

    def _expand_wildcard(self, at: str, segment: str, rest: list[str], trail: _Trail) -> None:
        self._follow(at, trail)
        names = self._names(at, segment)
        trail.trouble = trail.trouble or self._troubles.get(at, "")
        for name in names:
            # As in a shell, a hidden file is only found by a pattern that begins with a dot.
            hidden = name.startswith(".") and not segment.startswith(".")
            if hidden or not globs.matches(segment, name):
                continue
            path = f"{at}/{name}"
            # A wildcard does not lead through a link to a folder: /dev/fd is one (D13).
            if not rest:
                trail.paths.append(path)
            elif self._is_folder(path):
                self._expand(path, rest, trail)
            else:
                trail.trouble = trail.trouble or self._troubles.get(path, "")

    def _names(self, folder: str, segment: str) -> list[str]:
        """Give the names in a folder that begin as the pattern does."""
        known = self._now.names
        if folder not in known:
            try:
                names = sorted(self._root.entries(folder))
            except OSError as error:
                before = self._before.names.get(folder, [])
                names = before if self._note_trouble(folder, error) else []
            known[folder] = names
        names = known[folder]
        # A hundred patterns over one folder of ten thousand must not be a million matches.
        prefix = _MAGIC.split(segment, maxsplit=1)[0]
        first = bisect_left(names, prefix)
        return names[
            first : bisect_right(names, prefix, lo=first, key=lambda name: name[: len(prefix)])
        ]

    def _is_link(self, path: str) -> bool:
        try:
            return stat.S_ISLNK(self._root.lstat(path).st_mode)
        except OSError:
            return False

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._root.lstat(path).st_mode)
        except OSError as error:
            return self._note_trouble(path, error) and path in self._before.names

    def _follow(self, path: str, trail: _Trail) -> None:
        """Add the folders in which a change could let the path lead elsewhere."""
        way = self._way(path)
        trail.folders |= way.folders
        trail.plain = trail.plain and way.plain

    def _way(self, path: str) -> _Way:
        """Return how a path is followed.

        Its folders are the one it leads to, or the deepest one that exists: there the next will
        appear; and those of all links.
        """
        if path not in self._ways:
            walk = self._root.walk(path)
            deepest = walk.at if self._is_folder(walk.at) else _parent(walk.at)
            end = walk.at
            if walk.error is not None:
                end = self._root.walk(path, past_missing=True).at
            self._ways[path] = _Way(
                folders=frozenset({deepest, *map(_parent, walk.links)}),
                through=frozenset({path, end, *walk.links}),
                plain=not walk.links,
            )
        return self._ways[path]

    def _type_and_number(
        self, target: str, status: os.stat_result
    ) -> tuple[FileType, tuple[int, int] | None]:
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            return FileType.DIRECTORY, None
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            number = (os.major(status.st_rdev), os.minor(status.st_rdev))
            return FileType.CHAR if stat.S_ISCHR(mode) else FileType.BLOCK, number
        if not self._root.is_machine and target.startswith("/dev/"):
            # Not a cached_property: those share one lock, and a look that hangs would hold it.
            if self._nodes_of_copy is None:
                self._nodes_of_copy = device_names(self._root)
            return self._nodes_of_copy.get(target.removeprefix("/dev/"), (FileType.FILE, None))
        return FileType.FILE, None

    def _node_trouble(self, walk: Walk, status: os.stat_result) -> str:
        """Say why a node cannot be trusted: it, and every link to it, must lie on /dev itself.

        Anybody can write to /dev/shm; a link from there must not smuggle a device in.
        """
        trusted = {self._filesystem("/dev"), self._filesystem(_DEVPTS)} - {None}
        if status.st_dev not in trusted:
            return f"{walk.at} is not on the filesystem mounted at /dev"
        for link in walk.links:
            if self._root.lstat(link).st_dev not in trusted:
                return f"the link {link} is not on the filesystem mounted at /dev"
        return ""

    def _link_trouble(self, path: str, status: os.stat_result) -> str:
        """Say why a file or folder cannot be offered.

        Who may write a link on one filesystem must not choose what is offered of another.
        """
        own = self._root.lstat(path)
        if stat.S_ISLNK(own.st_mode) and own.st_dev != status.st_dev:
            return "it is a link to another filesystem"
        return ""

    def _filesystem(self, folder: str) -> int | None:
        if folder not in self._filesystems:
            try:
                self._filesystems[folder] = self._root.lstat(folder).st_dev
            except OSError:
                self._filesystems[folder] = None
        return self._filesystems[folder]


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _upwards(path: str) -> Iterator[str]:
    """Yield a path and each folder that it lies in, but for the topmost."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _is_told_of(path: str, file: FoundFile | None) -> bool:
    """Say whether events tell of a change at a path: inotify does not of sysfs and /proc."""
    if path.startswith("/sys/devices/"):
        # An event tells of each device. No links are in there.
        return file is not None and file.identity.syspath == path
    return not path.startswith(_UNTOLD)


def _name_trouble(path: str) -> str:
    """Say why a name cannot be told to the kubelet: its messages are UTF-8."""
    if path.isascii() and path.isprintable():
        return ""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    import unicodedata  # few nodes have such names

    control = any(unicodedata.category(one) == "Cc" for one in path if not one.isprintable())
    return "its name holds a control character" if control else ""


def is_same(
    root: Root, path: str, identity: Identity, files: DeviceFiles | None = None
) -> bool | None:
    """Say whether a path still leads to this very device, as it may; None if it leads nowhere.

    Asked at each allocation (D4, D5), because any link on the way may have been turned. Who asks
    about several gives the ``files``: of a copied tree it has to read which files are nodes.
    """
    found = (files or DeviceFiles(root)).examine(path)
    return None if found is None else found.identity == identity and not found.trouble
