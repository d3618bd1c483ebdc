"""Reads devices from sysfs and the udev database, each only when it is asked for, and once."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from bisect import bisect_left, insort
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from sys import intern
from typing import TYPE_CHECKING

from genericdp.devices.natural import natural_key
from genericdp.devices.sysdevice import SysDevice
from genericdp.host import udevdb
from genericdp.host.sysfs import syspath_of
from genericdp.model import FileType

if TYPE_CHECKING:
    from genericdp.host.root import Root

_DEVICES = "/sys/devices/"
_MOST_BYTES = 65_536
_PARTS = ("uevent", "subsystem", "driver")
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ELOOP}
"""Errors that say that there is no device, or none any longer."""

Guard = Callable[[str, Callable[[], str]], str]
"""Runs a read of a path and gives its text; raises OSError, TimeoutError if it is known to hang."""


class SysDevices:
    """The devices of one root. It remembers what it has read until it is told to ``forget``."""

    def __init__(self, root: Root, *, guard: Guard = lambda _, read: read()) -> None:
        self._root = root
        self.guard = guard
        self._troubles: dict[str, str] = {}
        self._devices: dict[str, SysDevice | None] = {}
        self._ancestors: dict[str, tuple[SysDevice, ...]] = {}
        self._members: dict[str, list[str]] = {}
        """In natural order."""
        self._sorted: dict[str, list[str]] = {}
        self._subsystems: tuple[str, ...] | None = None
        self._records: frozenset[str] | None = None
        self._forgotten: set[str] = set()
        self._plain: dict[str, bool] = {"": True}

    def get(self, syspath: str) -> SysDevice | None:
        """Give the device of a folder below /sys/devices, or None if there is none."""
        if syspath not in self._devices:
            self._devices[syspath] = self._read(syspath)
        return self._devices[syspath]

    def ancestors(self, device: SysDevice) -> tuple[SysDevice, ...]:
        """Give the devices whose folders the device's folder lies in, the nearest first."""
        if device.syspath not in self._ancestors:
            folders = []
            folder = device.syspath.rpartition("/")[0]
            while len(folder) > len(_DEVICES):
                folders.append(folder)
                folder = folder.rpartition("/")[0]
            found = map(self.get, folders)
            self._ancestors[device.syspath] = tuple(one for one in found if one is not None)
        return self._ancestors[device.syspath]

    def trouble(self, path: str) -> str:
        """Return why a part of a device that is there could not be read, or a list of devices.

        Of a device's folder: why what udev has recorded of it could not be.
        """
        return self._troubles.get(path, "")

    def subsystems(self) -> tuple[str, ...]:
        """Give the names of all buses and classes."""
        if self._subsystems is None:
            folders = map(self._entries, ("/sys/bus", "/sys/class"))
            self._subsystems = tuple(sorted({name for names in folders for name in names}))
        return self._subsystems

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        """Give the devices of a bus or class, in natural order of their syspaths."""
        if subsystem not in self._members:
            self._members[subsystem] = self._listed(subsystem)
        found = (self.get(syspath) for syspath in self._members[subsystem])
        return tuple(device for device in found if device is not None)

    def below(self, folder: str, subsystem: str) -> tuple[SysDevice, ...]:
        """Give those of them that lie below a folder; the others cost nothing."""
        if subsystem not in self._sorted:
            self._sorted[subsystem] = sorted(one.syspath for one in self.members(subsystem))
        syspaths = self._sorted[subsystem]
        # The character after a slash is a zero: what begins with the folder lies in between.
        within = syspaths[bisect_left(syspaths, f"{folder}/") : bisect_left(syspaths, f"{folder}0")]
        found = (self.get(syspath) for syspath in sorted(within, key=natural_key))
        return tuple(device for device in found if device is not None)

    def forget(self, syspath: str) -> None:
        """Read one device again; of its subsystem only it may have come or gone."""
        before = self._devices.pop(syspath, None)
        self._ancestors.clear()
        self._forgotten.add(syspath)
        self._plain = {"": True}
        if before is not None:
            self._leave(before.subsystem, syspath)
        after = self.get(syspath)
        if after is not None:
            self._join(after.subsystem, syspath)

    def _leave(self, subsystem: str, syspath: str) -> None:
        # Where ten thousand go at once, a walk through all others for each would take seconds.
        if (members := self._members.get(subsystem)) is not None:
            at = bisect_left(members, natural_key(syspath), key=natural_key)
            if members[at : at + 1] == [syspath]:
                del members[at]
        if (syspaths := self._sorted.get(subsystem)) is not None:
            at = bisect_left(syspaths, syspath)
            if syspaths[at : at + 1] == [syspath]:
                del syspaths[at]

    def _join(self, subsystem: str, syspath: str) -> None:
        if subsystem not in self.subsystems():
            self._subsystems = None  # the module of a new one may have been loaded
        # Listing thousands of neighbours again would cost more than everything else.
        if (members := self._members.get(subsystem)) is not None:
            at = bisect_left(members, natural_key(syspath), key=natural_key)
            if members[at : at + 1] != [syspath]:
                members.insert(at, syspath)
        if (syspaths := self._sorted.get(subsystem)) is not None:
            insort(syspaths, syspath)

    def syspaths_of_record(self, name: str) -> tuple[str, ...]:
        """Give the devices that a file of the udev database is about."""
        if name[:1] in {"b", "c"}:
            file_type = FileType.BLOCK if name[0] == "b" else FileType.CHAR
            major, _, minor = name[1:].partition(":")
            if not (major.isdecimal() and minor.isdecimal()):
                return ()
            syspath = None
            with suppress(OSError):  # what cannot be read now is read in the next full look
                syspath = syspath_of(self._root, file_type, (int(major), int(minor)))
            return () if syspath is None else (syspath,)
        if name.startswith("n"):
            # By the number of an interface, which only its uevent tells.
            return tuple(device.syspath for device in self.members("net"))
        subsystem, _, entry = name.removeprefix("+").partition(":")
        folders = (f"/sys/bus/{subsystem}/devices", f"/sys/class/{subsystem}")
        found = (self._linked(folder, entry) for folder in folders)
        return tuple(syspath for syspath in found if syspath is not None)

    def _listed(self, subsystem: str) -> list[str]:
        found: set[str] = set()
        for folder in (f"/sys/bus/{subsystem}/devices", f"/sys/class/{subsystem}"):
            for entry in self._entries(folder):
                syspath = self._linked(folder, entry)
                if syspath is not None:
                    found.add(syspath)
        return sorted(found, key=natural_key)

    def _linked(self, folder: str, entry: str) -> str | None:
        try:
            target = self._root.read_link(f"{folder}/{entry}")
        except OSError as error:
            # No link: an attribute file of the class itself.
            if error.errno not in {errno.EINVAL, *_GONE}:
                self._troubles[folder] = error.strerror or str(error)
            return None
        return _led_to(folder, target)

    def _entries(self, folder: str) -> list[str]:
        return self._root.entries_if_any(folder, self._troubles)

    def _read(self, syspath: str) -> SysDevice | None:
        for path in (syspath, *(f"{syspath}/{part}" for part in _PARTS)):
            self._troubles.pop(path, None)
        try:
            text = self._text(syspath, "uevent")
        except OSError as error:
            if error.errno in _GONE:
                return None
            text = ""  # a few are write-only: the device is there all the same
            self._troubles[f"{syspath}/uevent"] = error.strerror or str(error)
        pairs = (line.partition("=") for line in udevdb.lines(text))
        # The names are the same for thousands of devices: one text for each.
        uevent = {intern(key): value for key, equals, value in pairs if key and equals}
        subsystem = intern(self._last_part(f"{syspath}/subsystem"))
        record = self._record(syspath, subsystem, uevent)
        return SysDevice(
            syspath=syspath,
            subsystem=subsystem,
            devtype=uevent.get("DEVTYPE", ""),
            driver=self._last_part(f"{syspath}/driver"),
            properties=_properties(syspath, subsystem, uevent, record),
            tags=frozenset() if record is None else record.tags,
            links=() if record is None else record.links,
            recorded=record is not None,
        )

    def _record(
        self, syspath: str, subsystem: str, uevent: dict[str, str]
    ) -> udevdb.UdevRecord | None:
        if not subsystem:
            return None
        number = (uevent["MAJOR"], uevent["MINOR"]) if {"MAJOR", "MINOR"} <= uevent.keys() else None
        name = udevdb.record_name(
            syspath=syspath,
            subsystem=subsystem,
            number=number,
            interface_index=uevent.get("IFINDEX", ""),
        )
        if self._records is None:
            # One listing instead of a failed open for each of the many devices without a record.
            self._records = frozenset(self._entries(udevdb.FOLDER))
        if why := self._troubles.get(udevdb.FOLDER):
            self._troubles[syspath] = f"{udevdb.FOLDER} cannot be read: {why}"
        if name not in self._records and syspath not in self._forgotten:
            return None
        try:
            return udevdb.parse(self._text(udevdb.FOLDER, name))
        except OSError as error:
            if error.errno not in _GONE:
                why = error.strerror or str(error)
                self._troubles[syspath] = f"{udevdb.FOLDER}/{name} cannot be read: {why}"
            return None

    def _text(self, folder: str, name: str) -> str:
        """Give the content of a file; what is no UTF-8 is escaped."""
        path = f"{folder}/{name}"
        if self._root.is_machine or self._is_plain(folder):
            try:
                return self.guard(path, partial(self._content, path))
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
        return self.guard(path, partial(self._content, self._root.resolve(path).at))

    def _content(self, path: str) -> str:
        # Without blocking: in a damaged copy a pipe may lie here, which nobody writes to.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._root.real(path), flags)
        except OSError as error:
            self._root.heed(error)
            raise
        try:
            content = os.read(descriptor, _MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {_MOST_BYTES >> 10} KiB", path)
            if not content and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is a pipe, not a file", path)
            return content.decode(errors="backslashreplace")
        finally:
            os.close(descriptor)

    def _is_plain(self, folder: str) -> bool:
        """Say whether a folder and all above it are no links, so that a path below stays there."""
        if folder not in self._plain:
            self._plain[folder] = False
            with suppress(OSError):
                self._plain[folder] = self._is_plain(folder.rpartition("/")[0]) and stat.S_ISDIR(
                    self._root.lstat(folder).st_mode
                )
        return self._plain[folder]

    def _last_part(self, link: str) -> str:
        try:
            return self._root.read_link(link).rstrip("/").rpartition("/")[2]
        except OSError as error:
            if error.errno not in _GONE:
                self._troubles[link] = error.strerror or str(error)
            return ""


def _led_to(folder: str, target: str) -> str | None:
    # There are no links below /sys/devices, so this needs no look at each folder.
    up, _, rest = target.partition("/devices/")
    up_to_sys = "/".join([".."] * (folder.count("/") - 1))
    if up == up_to_sys and not ("/." in f"/{rest}" or "//" in f"/{rest}/"):
        path = f"{_DEVICES}{rest}"  # as the kernel writes them all
    else:
        path = posixpath.normpath(posixpath.join(folder, target))
    return path if path.startswith(_DEVICES) else None


def _properties(
    syspath: str, subsystem: str, uevent: dict[str, str], record: udevdb.UdevRecord | None
) -> dict[str, str]:
    """Give the properties as libudev does: the kernel's, the record's, and what it derives."""
    properties = {"DEVPATH": syspath.removeprefix("/sys"), **uevent}
    if subsystem:
        properties["SUBSYSTEM"] = subsystem
    if name := uevent.get("DEVNAME"):
        properties["DEVNAME"] = name if name.startswith("/dev/") else f"/dev/{name}"
    if record is not None:
        properties |= record.properties
        for key in record.removed:
            properties.pop(key, None)
    return properties
