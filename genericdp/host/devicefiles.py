"""Finds device files, directories and files by glob, and checks which containers may get."""

from __future__ import annotations

import errno
import os
import re
import stat
from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp import glob as globs
from genericdp.devices.inventory import FoundFile, Identity, Look, natural_key
from genericdp.devices.paths import PathTarget
from genericdp.errors import reason_of
from genericdp.host.root import ABSENT, note, target_of, upwards
from genericdp.host.sysfs import device_names, plugged_of, syspath_of
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from genericdp.host.pathwalk import Walk
    from genericdp.host.root import Root
    from genericdp.host.sysfs import Guard

_SILENT = ("/sys/", "/proc/")
"""Directories for which inotify reports nothing."""
_OF_DEVICES = ("/sys/devices/", "/sys/class/", "/sys/bus/")
"""The part of sysfs whose changes only uevents of its devices report."""
_MAGIC = re.compile(r"[*?[]")


@dataclass(slots=True)
class _Expansion:
    """The paths that a glob may stand for, and everything on the way to them."""

    paths: list[str] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    unreadable: str = ""
    """What could not be read, and why; empty if nothing."""


class DeviceFiles:
    """Caches the files at paths of a root, until ``forget`` is called for paths that may have
    changed. If a path cannot be read, its last result counts: an error is never an absence.
    ``before`` has earlier results for this.
    """

    def __init__(
        self,
        root: Root,
        before: DeviceFiles | None = None,
        *,
        guard: Guard = lambda _, read: read(),
        seen: set[str] | None = None,
    ) -> None:
        """``seen`` collects all paths on the way to files that are read."""
        self._root = root
        self._guard = guard
        self._seen = set() if seen is None else seen
        self._segments: dict[str, dict[str, str]] = {}
        """Patterns by the directory where they were really searched, each with its literal
        start.
        """
        self.is_elsewhere = False
        """Whether something in sysfs was read that no uevent of its own device reports."""
        self._numbers = set[tuple[int, int]]()
        """The numbers of nodes for which sysfs had no device."""
        self._files: dict[str, FoundFile | None] = {}
        """Current results by path."""
        self._names: dict[str, list[str]] = {}
        """The same for the entries of a directory, sorted."""
        self._old_files: dict[str, FoundFile | None] = {}
        """Outdated results, in case a path cannot be read now."""
        self._old_names: dict[str, list[str]] = {}
        if before is not None:
            # Copies, because a thread that hangs may still be adding to the originals.
            self._old_files = before._old_files | before._files  # noqa: SLF001
            self._old_names = before._old_names | before._names  # noqa: SLF001
        self._walks: dict[str, Walk] = {}
        """The targets of paths, even of missing ones."""
        self.why_unreadable: dict[str, str] = {}
        """Reasons by path, for files that cannot be read although they probably exist."""
        self._nodes_of_copy: Mapping[str, tuple[FileType, tuple[int, int] | None]] | None = None

    def has_met(self, path: str) -> bool:
        """Return whether a result may be different if a path has changed.

        If not, lists of entries in its directory are dropped, because they may be incomplete now.
        """
        if path in self._seen:
            return True
        directory, name = _parent(path), path.rpartition("/")[2]
        if (segments := self._segments.get(directory)) is None:
            return False
        # There may be one for each device: comparing the start first saves most expressions.
        if any(
            name.startswith(segments[segment]) and _finds(segment, name) for segment in segments
        ):
            return True
        walks = self._walks
        for listed in [
            path for path in self._names if path in walks and walks[path].at == directory
        ]:
            self._old_names[listed] = self._names.pop(listed)
        return False

    def place_of(self, path: str) -> str:
        """Return the target of a path, even if parts of it are missing."""
        return self._walk(path).at

    def has_node(self, number: tuple[int, int] | None) -> bool:
        """Return whether a node was read whose device may be about to appear."""
        return number in self._numbers

    def drop_outdated(self) -> None:
        """Drop outdated results that the finished reconcile did not read again."""
        self._old_files.clear()
        self._old_names.clear()

    def forget(
        self, paths: Collection[str], numbers: Collection[tuple[int, int] | None] = ()
    ) -> None:
        """Mark as outdated what leads to these paths or is below them, and the files of these
        devices. This includes everything that no event reports: unreadable files, and those in
        sysfs or /proc. ``numbers`` are those of devices that may be new in sysfs.
        """
        changed = frozenset(paths)
        parents = set(map(_parent, changed))
        walks = {
            path: walk
            for path, walk in self._walks.items()
            if not any(_is_within(link, changed) for link in {path, walk.at, *walk.links})
        }

        def is_current(path: str) -> bool:
            file = self._files[path]
            syspath = None if file is None else file.identity.syspath
            if path not in walks or path in self.why_unreadable:
                return False
            if path.startswith(_SILENT) and path != syspath:
                return False
            if syspath is not None:
                return not _is_within(syspath, changed)
            number = None if file is None else file.identity.device_number
            return number is None or number not in numbers

        def is_listed(directory: str) -> bool:
            return (
                directory in walks
                and directory not in self.why_unreadable
                and parents.isdisjoint((directory, walks[directory].at))
                and not f"{directory}/".startswith(_SILENT)
            )

        for path in [file for file in self._files if not is_current(file)]:
            self._old_files[path] = self._files.pop(path)
        for directory in [name for name in self._names if not is_listed(name)]:
            self._old_names[directory] = self._names.pop(directory)
        self._walks = walks
        self.why_unreadable.clear()
        self._nodes_of_copy = None

    def look(self, pattern: str) -> Look:
        """Return everything that the glob finds, in natural order; raise nothing."""
        found = _Expansion()
        self._expand("", [part for part in pattern.split("/") if part not in {"", "."}], found)
        files, dangling = [], []
        for path in sorted(set(found.paths), key=natural_key):
            file = self.examine(path)
            if file is not None:
                files.append(file)
            elif stat.S_ISLNK(self._mode(path)):
                dangling.append(path)
            self._note_unreadable(path, found)
            if file is None or file.is_link:
                # Its links may be redirected, and their targets may come and go.
                self._note_directories(path, found)
        return Look(
            files=tuple(files),
            directories=frozenset(found.directories),
            unreadable=found.unreadable,
            dangling=tuple(dangling),
        )

    def examine(self, path: str) -> FoundFile | None:
        """Return the file at a path, or None if it does not exist."""
        if path not in self._files:
            found = None
            try:
                found = self._examine(path)
            except OSError as error:
                # A circle of links leads nowhere; anything may be behind such a directory.
                leads_nowhere = error.errno == errno.ELOOP and stat.S_ISLNK(self._mode(path))
                if not leads_nowhere and self._note_error(path, error):
                    found = self._old_files.get(path)
            self._files[path] = found
        return self._files[path]

    def mount_target(self, path: str) -> PathTarget:
        """Return the target of a path to be mounted, even if parts of it are missing."""
        if (found := self.examine(path)) is None:
            return target_of(self._walk(path))
        return PathTarget(target=found.target, refusal=found.mount_refusal)

    def exists(self, path: str, sees: Callable[[str], bool]) -> bool | None:
        """Return whether a path exists; None if a part of the path cannot be seen."""
        found, walk = self.examine(path), self._walk(path)
        if path in self.why_unreadable or not all(map(sees, (walk.at, *walk.links))):
            return None
        return found is not None

    def _note_unreadable(self, path: str, found: _Expansion) -> None:
        if not found.unreadable and path in self.why_unreadable:
            found.unreadable = f"{path} cannot be read ({self.why_unreadable[path]})"

    def _note_error(self, path: str, error: OSError) -> bool:
        """Record an error; return whether it is anything other than an absence."""
        if error.errno in ABSENT:
            return False
        self.why_unreadable[path] = reason_of(error)
        return True

    def _examine(self, path: str) -> FoundFile:
        # Not cached: nothing reports a change of a link in sysfs, or of its permissions.
        walk = self._walk_anew(path)
        walk.check()
        target, status = walk.at, self._root.lstat(walk.at)
        file_type, number = self._type_and_number(target, status)
        if number is not None:
            syspath = syspath_of(self._root, file_type, number)
            if syspath is None and self._root.lstat(target).st_ino != status.st_ino:
                # A device that disappears loses its node first, then its entry in sysfs.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)
        else:
            # A device without a file is identified by its directory.
            syspath = target if target.startswith("/sys/devices/") else None
        if syspath is not None:
            note(syspath, self._seen)
        elif number is not None:
            self._numbers.add(number)
        refusal = _name_refusal(path) or (_name_refusal(target) if target != path else "")
        if number is not None:
            refusal = refusal or self._node_refusal(walk, status)
        refusal = refusal or walk.why_untrusted
        link_refusal = ""
        if walk.links and not refusal:
            # A user who may write a link on one filesystem must not choose what another one offers.
            own = self._root.lstat(path)
            if stat.S_ISLNK(own.st_mode) and own.st_dev != status.st_dev:
                link_refusal = "it is a link to another filesystem"
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
            refusal=refusal or link_refusal,
            mount_refusal=refusal,
        )

    def _read(self, path: str) -> str:
        return self._guard(path, lambda: self._root.read_text(path))

    def _walk(self, path: str) -> Walk:
        return self._walks.get(path) or self._walk_anew(path)

    def _walk_anew(self, path: str) -> Walk:
        walk = self._walks[path] = self.walk(path)
        if any(
            met.startswith("/sys/") and not met.startswith(_OF_DEVICES) for met in _met(path, walk)
        ):
            self.is_elsewhere = True
        return walk

    def walk(self, path: str) -> Walk:
        """Return the current target of a path; a link on the way may be in a watched directory."""
        walk = self._root.walk(path, past_missing=True)
        for met in _met(path, walk):
            note(met, self._seen)
        return walk

    def _expand(self, at: str, segments: list[str], found: _Expansion) -> None:
        for i, segment in enumerate(segments):
            if globs.has_wildcard(segment):
                self._expand_wildcard(at, segment, segments[i + 1 :], found)
                return
            at = f"{at}/{globs.unescape(segment)}"
        self._note_directories(_parent(at), found)
        found.paths.append(at)

    def _expand_wildcard(self, at: str, segment: str, rest: list[str], found: _Expansion) -> None:
        directory = at or "/"
        self._note_directories(directory, found)
        names = self._names_in(directory, segment)
        self._note_unreadable(directory, found)
        for name in names:
            if not _finds(segment, name):
                continue
            path = f"{at}/{name}"
            # A wildcard does not lead through a link to a directory: /dev/fd is one (D13).
            if not rest:
                found.paths.append(path)
            elif self._is_directory(path):
                self._expand(path, rest, found)
            else:
                self._note_unreadable(path, found)

    def _names_in(self, directory: str, segment: str) -> list[str]:
        """Return the names in a directory that begin like the pattern."""
        prefix = _MAGIC.split(segment, maxsplit=1)[0]
        at = self._walk(directory).at
        # There may be links to other devices (holders/*), or directories that appear with one: the
        # kernel reports those devices, and not this one.
        self.is_elsewhere = self.is_elsewhere or at.startswith("/sys/devices/")
        self._segments.setdefault(at, {})[segment] = prefix
        if directory not in self._names:
            names = []
            try:
                # The end of the walk: if it hangs there, that mount is the cause.
                names = sorted(self._root.entries(at))
            except OSError as error:
                if self._note_error(directory, error):
                    names = self._old_names.get(directory, [])
            self._names[directory] = names
        names = self._names[directory]
        # A hundred patterns over one directory of ten thousand must not be a million matches.
        first = bisect_left(names, prefix)
        return names[
            first : bisect_right(names, prefix, lo=first, key=lambda name: name[: len(prefix)])
        ]

    def _mode(self, path: str) -> int:
        """Return the mode of a path itself; 0 if it does not exist or cannot be read."""
        try:
            return self._root.lstat(path).st_mode
        except OSError:
            return 0

    def _is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._root.lstat(path).st_mode)
        except OSError as error:
            was_directory = self._names.get(path) or self._old_names.get(path)
            return self._note_error(path, error) and bool(was_directory)

    def _note_directories(self, path: str, found: _Expansion) -> None:
        """Add the directories in which a change could let the path lead elsewhere.

        These are the directories of all links, and that of the target, or the deepest one that
        exists: there the next one will appear.
        """
        walk = self._walk(path)
        directory = walk.at
        while directory != "/" and not stat.S_ISDIR(self._mode(directory)):
            directory = _parent(directory)
        found.directories |= {directory, *map(_parent, walk.links)}

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
            # Not a cached_property: those share one lock, and a read that hangs would hold it.
            if self._nodes_of_copy is None:
                self._nodes_of_copy = device_names(self._root)
            return self._nodes_of_copy.get(target.removeprefix("/dev/"), (FileType.FILE, None))
        return FileType.FILE, None

    def _node_refusal(self, walk: Walk, status: os.stat_result) -> str:
        """Return why a node cannot be trusted: it, and every link to it, must be on the filesystem
        of /dev.

        Every user can write to /dev/shm, so links there do not count.
        """
        trusted = set()
        for directory in ("/dev", "/dev/pts"):
            with suppress(OSError):
                trusted.add(self._root.lstat(directory).st_dev)
        if status.st_dev not in trusted:
            return f"{walk.at} is not on the filesystem mounted at /dev"
        for link in walk.links:
            if self._root.lstat(link).st_dev not in trusted:
                return f"the link {link} is not on the filesystem mounted at /dev"
        return ""


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _met(path: str, walk: Walk) -> tuple[str, ...]:
    return (path, walk.at, *walk.links)


def _finds(segment: str, name: str) -> bool:
    """Return whether a part of a glob finds a name.

    As in a shell, a hidden file is only found by a pattern that begins with a dot.
    """
    hidden = name.startswith(".") and not segment.startswith(".")
    return not hidden and globs.matches(segment, name)


def _is_within(path: str, changed: frozenset[str]) -> bool:
    """Return whether a path, or a directory above it, is among these."""
    return bool(changed) and not changed.isdisjoint(upwards(path))


def _name_refusal(path: str) -> str:
    """Return why the kubelet cannot be given a name: its messages are UTF-8."""
    if path.isascii() and path.isprintable():
        return ""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    import unicodedata  # few nodes have such names

    control = any(
        unicodedata.category(character) == "Cc" for character in path if not character.isprintable()
    )
    return "its name holds a control character" if control else ""


def is_same(
    root: Root, path: str, identity: Identity, files: DeviceFiles | None = None
) -> bool | None:
    """Return whether a path is still this device and permitted; None if it is missing.

    This is checked at each allocation (D4, D5), because any link on the way may have been
    redirected. A caller that checks several paths passes ``files``, which has to find out which
    files of a copied tree are nodes.
    """
    found = (files or DeviceFiles(root)).examine(path)
    return None if found is None else found.identity == identity and not found.refusal
