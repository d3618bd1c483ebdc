"""Copies what matching reads from a machine: names, links, numbers and small attributes."""

from __future__ import annotations

import errno
import mmap
import os
import posixpath
import stat
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.host import udevdb
from genericdp.snapshot.archive import (
    MOST_ENTRIES,
    MOST_FILE_BYTES,
    ArchiveError,
    Entry,
    Kind,
    led_to,
)
from genericdp.snapshot.attributes import MOST_BYTES, why_no_file, why_no_folder
from genericdp.snapshot.nodes import NodeCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.host.root import Root
    from genericdp.host.sysfs import Guard

_SYSTEM = "sys/devices/system"
_OF_SYSTEM = {"node"}
"""Processors and blocks of memory are thousands, and nothing to hand out."""
_LISTS = ("sys/bus", "sys/class")
_MOST_DEPTH = 48


@dataclass(slots=True)
class LeftOut:
    """What is not in a copy: how often for which reason, and the first of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, path: str, reason: str) -> None:
        """Count one."""
        self.counts[reason] += 1
        self.examples.setdefault(reason, f"/{path}")


@dataclass(slots=True)
class Copy:
    """What was copied, by path."""

    entries: dict[str, Entry] = field(default_factory=dict)
    unreadable: LeftOut = field(default_factory=LeftOut)
    """What the user who copied was not allowed to read, or does not answer."""

    def add(self, entry: Entry) -> None:
        """Add one; raises ArchiveError if there are too many."""
        if len(self.entries) >= MOST_ENTRIES:
            raise ArchiveError(f"it has more than {MOST_ENTRIES:,} entries")
        self.entries[entry.path] = entry

    def in_order(self) -> list[Entry]:
        """Give all, folders before what is in them, the same however they were found."""
        return [self.entries[path] for path in sorted(self.entries)]


def copied(root: Root, *, guard: Guard, tell: Callable[[int, str], None]) -> Copy:
    """Copy a machine; ``tell`` is called with the number of entries so far, often.

    Raises ArchiveError if the machine is too large.
    """
    copy = Copy()
    walk = _Walk(root, copy, guard, tell)
    for top in ("dev", "sys", "sys/devices", *_LISTS, "sys/dev/char", "sys/dev/block"):
        copy.add(Entry(top, Kind.FOLDER))
    walk.devices()
    walk.groups()
    walk.lists()
    walk.records()
    NodeCopy(root, copy.entries, copy.unreadable.note).copy(copy.add)
    walk.folders_that_links_lead_to()
    return copy


class _Walk:
    def __init__(
        self, root: Root, copy: Copy, guard: Guard, tell: Callable[[int, str], None]
    ) -> None:
        self._root = root
        self._copy = copy
        self._guard = guard
        self._tell = tell
        self._targets: set[str] = set()
        self._plain: dict[str, bool] = {"": True}

    def devices(self) -> None:
        """Copy all below /sys/devices that says what a device is."""
        pending = [("sys/devices", "")]
        while pending:
            path, subsystem = pending.pop()
            self._tell(len(self._copy.entries), path)
            pending += self._device_folder(path, subsystem)

    def _device_folder(self, path: str, subsystem: str) -> Iterator[tuple[str, str]]:
        """Copy one folder and give those in it, with the subsystem that they lie in."""
        found = {one.name: one for one in self._scan(path)}
        if "uevent" in found:
            subsystem = self._link_text(f"{path}/subsystem").rpartition("/")[2]
        self._copy.add(Entry(path, Kind.FOLDER))
        for name, one in found.items():
            below = f"{path}/{name}"
            if one.is_symlink():
                self._add_link(below)
            elif one.is_dir(follow_symlinks=False):
                # Devices are called so, too: those count.
                is_system = path == _SYSTEM and name not in _OF_SYSTEM
                denied = why_no_folder(name) and not self._is_device(below)
                if not is_system and not denied and below.count("/") < _MOST_DEPTH:
                    yield below, subsystem
            elif one.is_file(follow_symlinks=False) and not why_no_file(name, subsystem):
                self._add_file(below, one)

    def _is_device(self, path: str) -> bool:
        try:
            self._root.lstat(f"/{path}/uevent")
        except OSError:
            return False
        return True

    def _is_plain(self, path: str) -> bool:
        """Say whether a folder and all above it are no links, which could lead out of a copy."""
        if path not in self._plain:
            above = self._is_plain(path.rpartition("/")[0])
            self._plain[path] = above and self._is_folder(path)
        return self._plain[path]

    def _scan(self, path: str) -> list[os.DirEntry[str]]:
        if not (self._root.is_machine or self._is_plain(path)):
            return []
        try:
            with os.scandir(self._root.real(f"/{path}")) as entries:
                return list(entries)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                self._copy.unreadable.note(path, (error.strerror or str(error)).lower())
            return []

    def _add_file(self, path: str, one: os.DirEntry[str]) -> None:
        try:
            status = one.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # just gone
        is_uevent = path.endswith("/uevent")
        content = b""
        if status.st_mode & stat.S_IROTH and (is_uevent or self._is_text(status)):
            try:
                content = self._content(path)
            except OSError as error:
                if error.errno in {errno.EACCES, errno.EPERM, None}:
                    self._copy.unreadable.note(path, (error.strerror or str(error)).lower())
                if not is_uevent:
                    return
        elif not is_uevent:
            return
        if is_uevent or (len(content) <= MOST_BYTES and b"\0" not in content):
            self._copy.add(Entry(path, Kind.FILE, content))

    def _is_text(self, status: os.stat_result) -> bool:
        # To sysfs each attribute of text is as large as a page; binary ones have their own size.
        return status.st_size == mmap.PAGESIZE if self._root.is_machine else True

    def _content(self, path: str, most: int = MOST_FILE_BYTES) -> bytes:
        real = self._root.real(f"/{path}")

        def read() -> str:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(real, flags)
            try:
                return os.read(descriptor, most).decode("latin-1")
            finally:
                os.close(descriptor)

        return self._guard(f"/{path}", read).encode("latin-1")

    def _link_text(self, path: str) -> str:
        try:
            return self._root.read_link(f"/{path}")
        except OSError:
            return ""

    def _add_link(self, path: str) -> None:
        text = self._link_text(path)
        target = led_to(path, text)
        if target is not None and target.startswith("sys/"):
            self._copy.add(Entry(path, Kind.LINK, target=text))
            self._targets.add(target)

    def groups(self) -> None:
        """Copy which devices the IOMMU keeps together."""
        for group in self._scan("sys/kernel/iommu_groups"):
            path = f"sys/kernel/iommu_groups/{group.name}"
            self._copy.add(Entry(path, Kind.FOLDER))
            for one in self._scan(path):
                if one.is_file(follow_symlinks=False) and one.name in {"name", "type"}:
                    self._add_file(f"{path}/{one.name}", one)
            self._add_members(f"{path}/devices")

    def lists(self) -> None:
        """Copy the lists of devices by bus, class, driver and number."""
        for top in _LISTS:
            for subsystem in self._scan(top):
                if not subsystem.is_dir(follow_symlinks=False):
                    continue
                path = f"{top}/{subsystem.name}"
                self._copy.add(Entry(path, Kind.FOLDER))
                self._add_members(f"{path}/devices" if top == "sys/bus" else path)
                if top == "sys/bus":
                    for driver in self._scan(f"{path}/drivers"):
                        self._add_members(f"{path}/drivers/{driver.name}")
        for path in ("sys/block", "sys/dev/char", "sys/dev/block"):
            self._add_members(path)

    def _add_members(self, folder: str) -> None:
        """Copy the links of a folder that lead to what was copied."""
        found = self._scan(folder)
        if found or self._is_plain(folder):
            self._copy.add(Entry(folder, Kind.FOLDER))
        for one in found:
            path = f"{folder}/{one.name}"
            if one.is_symlink():
                text = self._link_text(path)
                if led_to(path, text) in self._copy.entries:
                    self._copy.add(Entry(path, Kind.LINK, target=text))
            elif folder.startswith("sys/dev/") and one.is_dir():
                # A copied tree may know a number that sysfs does not have: see NodeCopy.
                self._device_folder_of_number(path)

    def _device_folder_of_number(self, path: str) -> None:
        for one in self._scan(path):
            if one.name == "uevent" and one.is_file(follow_symlinks=False):
                self._copy.add(Entry(path, Kind.FOLDER))
                self._add_file(f"{path}/uevent", one)

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._root.lstat(f"/{path}").st_mode)
        except OSError:
            return False

    def folders_that_links_lead_to(self) -> None:
        """Add them empty, of drivers for instance: a link that leads nowhere has no last part."""
        for target in sorted(self._targets - self._copy.entries.keys()):
            if self._is_folder(target):
                self._copy.add(Entry(target, Kind.FOLDER))

    def records(self) -> None:
        """Copy the udev database."""
        folder = posixpath.relpath(udevdb.FOLDER, "/")
        for one in self._scan(folder):
            self._copy.add(Entry(folder, Kind.FOLDER))
            path = f"{folder}/{one.name}"
            if one.name.startswith(".") or not one.is_file(follow_symlinks=False):
                continue
            try:
                if one.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                    self._copy.add(Entry(path, Kind.FILE, self._content(path)))
            except OSError as error:
                self._copy.unreadable.note(path, (error.strerror or str(error)).lower())
