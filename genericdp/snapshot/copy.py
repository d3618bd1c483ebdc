"""Copies the parts of a machine that configs can see: names, links, numbers and small attributes.

In a copy, a plain file represents a device node if ``sys/dev/*/MAJ:MIN/uevent`` names it. Only
files that everybody may read are copied, so that a snapshot made by root contains nothing that an
ordinary user could not see.
"""

from __future__ import annotations

import errno
import mmap
import os
import posixpath
import stat
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from genericdp.errors import reason_of
from genericdp.host.sysfs import UDEV_RECORDS, device_names
from genericdp.model import FileType
from genericdp.snapshot.archive import MAX_FILE_BYTES, ArchiveEntry, Kind, led_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.host.root import Root

    Guard = Callable[[str, Callable[[], bytes]], bytes]
    Number = tuple[FileType, tuple[int, int]]

_SYSTEM = "sys/devices/system"
_OF_SYSTEM = {"node"}
"""There are thousands of processors and memory blocks, which are not devices for containers."""
_LISTS = ("sys/bus", "sys/class")
_OF_SESSIONS = {"dev/pts", "dev/shm", "dev/mqueue", "dev/hugepages", "dev/fd"}
"""Filesystems whose content belongs to a logged-in user, or to a program."""
_MAX_DEPTH = 48
_ELSEWHERE = "not on the filesystem mounted at /dev, so never offered"
_UNTRUSTED = "a link that a user other than root can change, so never offered"
_MISNAMED = "not what sysfs calls by that name"

_MAX_ATTRIBUTE_BYTES = 4096
"""The kernel's text attributes are never longer."""
_SKIPPED_FILES = (
    # Reading these may act on the hardware, or they are binary. PCI: configuration space, option
    # ROM, BARs (also as a list of addresses), vital product data.
    *("config", "rom", "resource", "resource[0-9]*", "vpd", "mmio*"),
    # USB and HID: binary; the same facts have their own attributes.
    *("descriptors", "bos_descriptors", "report_descriptor", "edid"),
    # Reads that query a link, a bus or firmware, start a conversion, or take a second.
    *("w1_slave", "eeprom", "nvram", "pcrs", "measurements", "dump"),
    # Graphics cards: a read wakes a sleeping card.
    *("pp_*", "gpu_metrics", "pm_metrics", "*_busy_percent"),
    # Counters and measurements: a different value at each read.
    *("gt_*", "*_freq", "*_freq_*", "throttle_*"),
    *("stat", "inflight", "urbnum", "uptime", "*_usage", "*_count", "mem_info_*_used"),
    *("carrier_*", "*_time", "*_ns", "*_bytes", "*_errors", "aer_*"),
    *("meminfo", "vmstat", "numastat", "*_stats", "*_stat"),
    # These may be secrets, or a user's own text.
    *("*password*", "*secret*", "key", "*_key", "*_psk"),
    *("username*", "backing_file", "*asset_tag*"),
)
"""Globs of the names of attributes."""
_PRIVATE_OF_FIRMWARE = ("*serial*", "*uuid*")
"""Attributes of the subsystem ``dmi``."""
_SKIPPED_DIRECTORIES = (
    *("power", "statistics", "stats", "counters", "hw_counters"),
    *("trace", "wakeup", "errors", "lifs"),
    # InfiniBand: hundreds for each port, usually empty.
    *("gids", "gid_attrs", "pkeys"),
    # One for each queue, interrupt or processor: thousands that distinguish no devices.
    *("queues", "mq", "msi_irqs", "cpu_list", "events", "format"),
    # Each file in it is a command to the TPM.
    "pcr-*",
)
_MEASURING = frozenset(
    (
        *("hwmon", "thermal", "iio", "power_supply", "w1", "rtc", "watchdog", "leds", "ptp"),
        *("tpm", "enclosure", "regulator", "backlight", "devfreq", "powercap", "edac", "pps"),
    )
)
"""Subsystems whose attributes are read from the hardware, slowly."""
_NAMING = frozenset(
    (
        *("uevent", "name", "type", "label", "model", "manufacturer", "serial", "serial_number"),
        *("id", "dev", "modalias", "tpm_version_major", "model_name"),
    )
)
"""Their attributes that are copied nevertheless."""


@lru_cache(maxsize=4096)  # thousands of devices have the same few hundred
def _is_skipped(name: str, subsystem: str) -> bool:
    """Return whether an attribute of a device of this subsystem must not be read."""
    skipped = _SKIPPED_FILES + (_PRIVATE_OF_FIRMWARE if subsystem == "dmi" else ())
    is_measured = subsystem in _MEASURING and name not in _NAMING
    return is_measured or any(fnmatchcase(name, pattern) for pattern in skipped)


def _is_skipped_directory(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _SKIPPED_DIRECTORIES)


@dataclass(slots=True)
class Copy:
    """The entries of a copy, by path, and the number of omitted files, by reason."""

    entries: dict[str, ArchiveEntry] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """The first path for each reason."""

    def add(self, entry: ArchiveEntry) -> None:
        """Add an entry, or replace the one of that path."""
        self.entries[entry.path] = entry

    def add_directory(self, path: str) -> None:
        """Add a directory."""
        self.add(ArchiveEntry(path, Kind.DIRECTORY))

    def leave_out(self, path: str, why: str | OSError) -> None:
        """Count a file that cannot or must not be copied."""
        reason = reason_of(why).lower() if isinstance(why, OSError) else why
        self.left_out[reason] += 1
        self.examples.setdefault(reason, f"/{path}")

    def in_order(self) -> list[ArchiveEntry]:
        """Return all entries sorted by path, so that directories precede their contents."""
        return [self.entries[path] for path in sorted(self.entries)]


def copied(root: Root, copy: Copy, *, guard: Guard) -> Copy:
    """Add everything from a machine to an empty copy, and return it."""
    for top in ("dev", "sys", "sys/devices", *_LISTS, "sys/dev/char", "sys/dev/block"):
        copy.add_directory(top)
    sysfs = _Sysfs(root, copy, guard)
    sysfs.copy_devices()
    sysfs.copy_groups()
    sysfs.copy_lists()
    sysfs.copy_udev_records()
    _Dev(root, copy).copy()
    sysfs.add_link_targets()
    return copy


class _Sysfs:
    """Copies sysfs and the udev database."""

    def __init__(self, root: Root, copy: Copy, guard: Guard) -> None:
        self._root = root
        self._copy = copy
        self._guard = guard
        self._targets: set[str] = set()
        self._plain: dict[str, bool] = {"": True}

    def copy_devices(self) -> None:
        """Copy everything below /sys/devices that identifies devices."""
        pending = [("sys/devices", "")]
        while pending:
            path, subsystem = pending.pop()
            pending += self._device_directory(path, subsystem)

    def _device_directory(self, path: str, subsystem: str) -> Iterator[tuple[str, str]]:
        """Copy a directory; yield the directories in it with the subsystem that they belong to."""
        found = {entry.name: entry for entry in self._scan(path)}
        if "uevent" in found:
            subsystem = self._link_text(f"{path}/subsystem").rpartition("/")[2]
        self._copy.add_directory(path)
        for name, member in found.items():
            below = f"{path}/{name}"
            if member.is_symlink():
                self._add_link(below)
            elif member.is_dir(follow_symlinks=False):
                is_system = path == _SYSTEM and name not in _OF_SYSTEM
                # A device may have the name of such a directory.
                is_skipped = _is_skipped_directory(name) and not self._mode(f"{below}/uevent")
                if not is_system and not is_skipped and below.count("/") < _MAX_DEPTH:
                    yield below, subsystem
            elif member.is_file(follow_symlinks=False) and not _is_skipped(name, subsystem):
                self._add_file(below, member)

    def _mode(self, path: str) -> int:
        """Return the mode of a file; 0 if it does not exist."""
        try:
            return self._root.lstat(f"/{path}").st_mode
        except OSError:
            return 0

    def _is_plain(self, path: str) -> bool:
        """Return whether a directory and its parents are not links, which could lead elsewhere."""
        if path not in self._plain:
            above = self._is_plain(path.rpartition("/")[0])
            self._plain[path] = above and stat.S_ISDIR(self._mode(path))
        return self._plain[path]

    def _scan(self, path: str) -> list[os.DirEntry[str]]:
        if not (self._root.is_machine or self._is_plain(path)):
            return []
        try:
            with os.scandir(self._root.real(f"/{path}")) as entries:
                return list(entries)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                self._copy.leave_out(path, error)
            return []

    def _add_file(self, path: str, entry: os.DirEntry[str]) -> None:
        """Copy an attribute if it is a small text; for a uevent file, copy at least its
        existence.
        """
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # just gone
        content = self._text(path, status)
        if content is not None or entry.name == "uevent":
            self._copy.add(ArchiveEntry(path, Kind.FILE, content or b""))

    def _text(self, path: str, status: os.stat_result) -> bytes | None:
        """Return the content of a small text file; None if it is not one, or cannot be read."""
        is_uevent = path.endswith("/uevent")
        # In sysfs each attribute of text is as large as a page; binary ones have their own size.
        is_page = is_uevent or status.st_size == mmap.PAGESIZE or not self._root.is_machine
        if not (is_page and status.st_mode & stat.S_IROTH):
            return None
        try:
            content = self._content(path)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EPERM, None}:
                self._copy.leave_out(path, error)
            return None
        is_small = len(content) <= _MAX_ATTRIBUTE_BYTES and b"\0" not in content
        return content if is_uevent or is_small else None

    def _content(self, path: str) -> bytes:
        read = partial(
            self._root.read_bytes, f"/{path}", limit=MAX_FILE_BYTES, follow_symlinks=False
        )
        return self._guard(f"/{path}", read)

    def _link_text(self, path: str) -> str:
        try:
            return self._root.read_link(f"/{path}")
        except OSError:
            return ""

    def _add_link(self, path: str) -> None:
        text = self._link_text(path)
        target = led_to(path, text)
        if target is not None and target.startswith("sys/"):
            self._copy.add(ArchiveEntry(path, Kind.LINK, target=text))
            self._targets.add(target)

    def copy_groups(self) -> None:
        """Copy the IOMMU groups."""
        for group in self._scan("sys/kernel/iommu_groups"):
            path = f"sys/kernel/iommu_groups/{group.name}"
            self._copy.add_directory(path)
            for entry in self._scan(path):
                if entry.is_file(follow_symlinks=False) and entry.name in {"name", "type"}:
                    self._add_file(f"{path}/{entry.name}", entry)
            self._add_members(f"{path}/devices")

    def copy_lists(self) -> None:
        """Copy the lists of devices by bus, class, driver and number."""
        for top in _LISTS:
            for subsystem in self._scan(top):
                if not subsystem.is_dir(follow_symlinks=False):
                    continue
                path = f"{top}/{subsystem.name}"
                self._copy.add_directory(path)
                self._add_members(f"{path}/devices" if top == "sys/bus" else path)
                if top == "sys/bus":
                    for driver in self._scan(f"{path}/drivers"):
                        self._add_members(f"{path}/drivers/{driver.name}")
        for path in ("sys/block", "sys/dev/char", "sys/dev/block"):
            self._add_members(path)

    def _add_members(self, directory: str) -> None:
        """Copy the links of a directory that lead to copied files."""
        found = self._scan(directory)
        if found or self._is_plain(directory):
            self._copy.add_directory(directory)
        for entry in found:
            path = f"{directory}/{entry.name}"
            if entry.is_symlink():
                text = self._link_text(path)
                if led_to(path, text) in self._copy.entries:
                    self._copy.add(ArchiveEntry(path, Kind.LINK, target=text))
            elif directory.startswith("sys/dev/") and entry.is_dir():
                # Of a copy: a node whose number sysfs does not have, as _Dev adds it.
                for file in self._scan(path):
                    if file.name == "uevent" and file.is_file(follow_symlinks=False):
                        self._copy.add_directory(path)
                        self._add_file(f"{path}/uevent", file)

    def add_link_targets(self) -> None:
        """Add empty directories where links lead, e.g. to drivers: their names count."""
        for target in sorted(self._targets - self._copy.entries.keys()):
            if stat.S_ISDIR(self._mode(target)):
                self._copy.add_directory(target)

    def copy_udev_records(self) -> None:
        """Copy the udev database."""
        directory = posixpath.relpath(UDEV_RECORDS, "/")
        for entry in self._scan(directory):
            self._copy.add_directory(directory)
            path = f"{directory}/{entry.name}"
            if entry.name.startswith(".") or not entry.is_file(follow_symlinks=False):
                continue
            try:
                if entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                    self._copy.add(ArchiveEntry(path, Kind.FILE, self._content(path)))
            except OSError as error:
                self._copy.leave_out(path, error)


class _Dev:
    """Copies names and numbers of /dev, never file contents, once sysfs is copied."""

    def __init__(self, root: Root, copy: Copy) -> None:
        self._root = root
        self._copy = copy
        self._names = device_names(root)
        self._unnamed: dict[Number, list[str]] = {}
        """Names of nodes below /dev that sysfs does not know, as those of NVIDIA's driver."""

    def copy(self) -> None:
        """Copy /dev."""
        try:
            top = self._root.lstat("/dev")
        except OSError as error:
            self._copy.leave_out("dev", error)
            return
        if not stat.S_ISDIR(top.st_mode) and not self._root.is_machine:
            return  # a link could lead out of the copy
        self._copy_directory("dev", top.st_dev)
        for number, names in sorted(self._unnamed.items()):
            self._name(number, names)

    def _copy_directory(self, directory: str, filesystem: int) -> None:
        try:
            names = os.listdir(self._root.real(f"/{directory}"))  # noqa: PTH208
        except OSError as error:
            self._copy.leave_out(directory, error)
            return
        for name in names:
            path = f"{directory}/{name}"
            try:
                status = self._root.lstat(f"/{path}")
            except OSError:
                continue  # just gone
            if stat.S_ISDIR(status.st_mode):
                self._copy.add_directory(path)
                inside = status.st_dev == filesystem and path not in _OF_SESSIONS
                if inside and path.count("/") < _MAX_DEPTH:
                    self._copy_directory(path, filesystem)
            elif stat.S_ISLNK(status.st_mode):
                self._copy_link(path)
            elif status.st_dev != filesystem:
                self._copy.leave_out(path, _ELSEWHERE)
            else:
                self._copy_node(path, status)

    def _copy_link(self, path: str) -> None:
        """Copy a link as a relative one; links out of /dev belong to processes or sessions."""
        try:
            text = self._root.read_link(f"/{path}")
        except OSError:
            return  # just gone
        if text.startswith("/"):
            text = posixpath.relpath(text, f"/{posixpath.dirname(path)}")
        target = led_to(path, text)
        if target is None or not f"{target}/".startswith("dev/"):
            return
        if self._root.walk(f"/{path}").why_untrusted:
            self._copy.leave_out(path, _UNTRUSTED)
            return
        self._copy.add(ArchiveEntry(path, Kind.LINK, target=text))

    def _copy_node(self, path: str, status: os.stat_result) -> None:
        name = path.removeprefix("dev/")
        known, number = self._names.get(name), _number(status)
        if known is None and number is not None and "\n" not in name:
            self._unnamed.setdefault(number, []).append(name)
        elif known != number and (self._root.is_machine or number is not None):
            # In a copy, a plain file represents the node of that name; on a machine it does not.
            self._copy.leave_out(path, _MISNAMED)
            return
        self._copy.add(ArchiveEntry(path, Kind.FILE))

    def _name(self, number: Number, names: list[str]) -> None:
        """Name nodes in the uevent file of their number."""
        file_type, (major, minor) = number
        directory = f"sys/dev/{file_type}/{major}:{minor}"
        listed = "".join(f"DEVNAME={name}\n" for name in sorted(names))
        content = listed.encode(errors="surrogateescape")
        known = self._copy.entries.get(directory)
        if known is None:
            self._copy.add_directory(directory)
            self._copy.add(ArchiveEntry(f"{directory}/uevent", Kind.FILE, content))
            return
        uevent = f"{led_to(directory, known.target)}/uevent"
        own = self._copy.entries.get(uevent)
        too_long = own is not None and len(own.content) + len(content) > MAX_FILE_BYTES
        if own is None or too_long or b"DEVNAME=" not in own.content:
            for name in names:
                self._copy.entries.pop(f"dev/{name}", None)
                self._copy.leave_out(f"dev/{name}", _MISNAMED)
            return
        # The last name counts as the device's: its own stays that.
        self._copy.add(ArchiveEntry(uevent, Kind.FILE, content + own.content))


def _number(status: os.stat_result) -> Number | None:
    if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        file_type = FileType.CHAR if stat.S_ISCHR(status.st_mode) else FileType.BLOCK
        return file_type, (os.major(status.st_rdev), os.minor(status.st_rdev))
    return None
