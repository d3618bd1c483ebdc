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
from genericdp.host.links import way_of
from genericdp.host.root import ABSENT
from genericdp.host.sysfs import device_names, plugged_of, syspath_of
from genericdp.model import FileType
from genericdp.natural import natural_key
from genericdp.pathwalk import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.sysdevice import Way
    from genericdp.host.root import Root

_DEVPTS = "/dev/pts"
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


class Looker:
    """Looks at one root; make a new one for each pass, since it remembers what it has seen."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._files: dict[str, FoundFile | None] = {}
        self._resolved: dict[str, str] = {}
        self._entries: dict[str, list[str]] = {}
        self._troubles: dict[str, str] = {}
        """What is there, for all we know, but cannot be read: why."""
        self._ways: dict[str, tuple[frozenset[str], bool]] = {}
        self._filesystems: dict[str, int | None] = {}
        self._nodes_of_copy: Mapping[str, tuple[FileType, tuple[int, int] | None]] | None = None

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
            if found is not None and found.is_link:
                trail.plain = False
        lost = not (files or trail.plain or globs.has_wildcard(pattern))
        return Look(
            files=tuple(files),
            folders=frozenset(trail.folders),
            plain=trail.plain,
            trouble=trail.trouble,
            lost=way_of(self._root, globs.unescape(pattern)) if lost else None,
            dangling=tuple(dangling),
        )

    def examine(self, path: str) -> FoundFile | None:
        """Give what a path leads to, or None if there is nothing."""
        if path not in self._files:
            try:
                self._files[path] = self._examined(path)
            except OSError as error:
                self._files[path] = None
                self._note_trouble(path, error)
        return self._files[path]

    def way(self, path: str) -> Way:
        """Give where a path leads, or would if all that is missing were there."""
        if (found := self.examine(path)) is None:
            return way_of(self._root, path)
        return found.way

    def trouble(self, path: str) -> str:
        """Return why a path that was examined cannot be read; empty if it was, or is not there."""
        return self._troubles.get(path, "")

    def _note_trouble(self, path: str, error: OSError) -> None:
        if error.errno not in ABSENT:
            self._troubles[path] = f"{path} cannot be read ({error.strerror or error})"

    def is_entry(self, path: str) -> bool:
        """Say whether there is something, be it a link that leads nowhere."""
        try:
            self._root.lstat(path)
        except OSError:
            return False
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
                plugged=plugged_of(self._root, file_type, syspath),
            ),
            trouble=trouble or (self._link_trouble(path, status) if walk.links else ""),
            mount_trouble=trouble,
        )

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
        if folder not in self._entries:
            try:
                self._entries[folder] = sorted(self._root.entries(folder))
            except OSError as error:
                self._entries[folder] = []
                self._note_trouble(folder, error)
        names = self._entries[folder]
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
            self._note_trouble(path, error)
            return False

    def _follow(self, path: str, trail: _Trail) -> None:
        """Add the folders in which a change could let the path lead elsewhere.

        These are the folder itself, or the deepest one that exists: there the next will appear;
        and those of all links.
        """
        if path not in self._ways:
            walk = self._root.walk(path)
            deepest = walk.at if self._is_folder(walk.at) else _parent(walk.at)
            self._ways[path] = frozenset({deepest, *map(_parent, walk.links)}), not walk.links
        folders, plain = self._ways[path]
        trail.folders |= folders
        trail.plain = trail.plain and plain

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


def is_same(root: Root, path: str, identity: Identity, looker: Looker | None = None) -> bool | None:
    """Say whether a path still leads to this very device, as it may; None if it leads nowhere.

    Asked at each allocation (D4, D5), because any link on the way may have been turned. Who asks
    about several gives the ``looker``: of a copied tree it has to read which files are nodes.
    """
    found = (looker or Looker(root)).examine(path)
    return None if found is None else found.identity == identity and not found.trouble
