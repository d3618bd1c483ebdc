"""Reads devices from sysfs and the udev database, each on demand, and once.

The records of the database contain the results of udev's rules for each device.
"""

from __future__ import annotations

import errno
import posixpath
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING

from genericdp.devices.inventory import SysDevice, natural_key
from genericdp.errors import reason_of
from genericdp.host.calls import HangsError
from genericdp.host.root import ABSENT, note, upwards
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from genericdp.host.root import Root

UDEV_RECORDS = "/run/udev/data"
_UDEV_SOCKET = "/run/udev/control"
_DEVICES = "/sys/devices/"
_MAX_BYTES = 65_536
_NO_RECORDS = "there are no records (is udevd running, and /run/udev mounted?)"
_PARTS = ("uevent", "subsystem", "driver")

Guard = Callable[[str, Callable[[], str]], str]
"""Runs a read of a path and returns its text; raises OSError, TimeoutError if it hangs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UdevRecord:
    """The content of one file of the database."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """The properties, including those that libudev derives; empty if udev has removed the
    record.
    """
    tags: frozenset[str] = frozenset()
    links: tuple[str, ...] = ()
    """Links to the device file, as ``/dev/…``."""


class SysDevices:
    """The devices of one root. It caches what it has read until ``forget``."""

    def __init__(
        self, root: Root, *, guard: Guard = lambda _, read: read(), seen: set[str] | None = None
    ) -> None:
        """``seen`` collects the directories that are read, and all of their parents."""
        self._root = root
        self.guard = guard
        self._seen = set() if seen is None else seen
        self._asked = set[str]()
        """The subsystems whose devices have been listed."""
        self.why_unreadable: dict[str, str] = {}
        """Reasons by path, for a list of devices or a part of a device that cannot be read; for
        a device's directory, why its udev record could not be read.
        """
        self._devices: dict[str, SysDevice | None] = {}
        self._ancestors: dict[str, tuple[SysDevice, ...]] = {}
        self._members: dict[str, tuple[SysDevice, ...]] = {}
        """Devices by subsystem, in natural order."""
        self._sorted: dict[str, list[str]] = {}
        """Their syspaths, sorted as strings."""
        self._subsystems: tuple[str, ...] | None = None
        self._records: set[str] | None = None
        """The names of the files in the udev database when they were last listed."""
        self._has_records = False
        """Whether those names are still complete, as far as is known."""
        self._owners: dict[str, str] = {}
        """The devices that were read, by the name of their record."""

    def get(self, syspath: str) -> SysDevice | None:
        """Return the device of a directory below /sys/devices, or None."""
        if syspath not in self._devices:
            note(syspath, self._seen)
            self._devices[syspath] = self._read(syspath)
        return self._devices[syspath]

    def lists(self, subsystem: str) -> bool:
        """Return whether a new device of a subsystem (empty for any) may belong to a list that
        was read.
        """
        known = self._subsystems
        is_new = known is not None and subsystem not in known
        return not subsystem or subsystem in self._asked or is_new

    def ancestors(self, device: SysDevice) -> tuple[SysDevice, ...]:
        """Return the devices whose directories contain the device's, the nearest first."""
        if device.syspath not in self._ancestors:
            _, *directories = upwards(device.syspath)
            found = (
                self.get(directory) for directory in directories if len(directory) > len(_DEVICES)
            )
            self._ancestors[device.syspath] = tuple(
                device for device in found if device is not None
            )
        return self._ancestors[device.syspath]

    def subsystems(self) -> tuple[str, ...]:
        """Return the names of all buses and classes."""
        if self._subsystems is None:
            directories = map(self._entries, ("/sys/bus", "/sys/class"))
            self._subsystems = tuple(sorted({name for names in directories for name in names}))
        return self._subsystems

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        """Return the devices of a bus or class, in natural order of their syspaths."""
        if subsystem not in self._members:
            self._asked.add(subsystem)
            syspaths = {
                syspath
                for directory in (f"/sys/bus/{subsystem}/devices", f"/sys/class/{subsystem}")
                for entry in self._entries(directory)
                if (syspath := self._linked(directory, entry)) is not None
            }
            found = map(self.get, sorted(syspaths, key=natural_key))
            self._members[subsystem] = tuple(device for device in found if device is not None)
        return self._members[subsystem]

    def below(self, directory: str, subsystem: str) -> tuple[SysDevice, ...]:
        """Return those of them that are below a directory, without reading the others."""
        if subsystem not in self._sorted:
            self._sorted[subsystem] = sorted(member.syspath for member in self.members(subsystem))
        syspaths = self._sorted[subsystem]
        # The character after a slash is a zero, so everything in the directory sorts in between.
        within = syspaths[
            bisect_left(syspaths, f"{directory}/") : bisect_left(syspaths, f"{directory}0")
        ]
        found = map(self.get, sorted(within, key=natural_key))
        return tuple(device for device in found if device is not None)

    def forget(self, syspaths: Collection[str]) -> set[str]:
        """Read these devices again, and all below those that appeared or disappeared; return all
        of them.
        """
        forgotten = set(syspaths)
        before = {syspath: self._devices.pop(syspath, None) for syspath in forgotten}
        self._ancestors.clear()
        self._subsystems, self._has_records = None, False
        moved = {
            syspath for syspath in before if before[syspath] is None or self.get(syspath) is None
        }
        if moved:
            # The kernel reports a move, but not its effect on children.
            below = {
                syspath for syspath in self._devices if not moved.isdisjoint(upwards(syspath))
            } - forgotten
            before |= {syspath: self._devices.pop(syspath) for syspath in below}
        for device in (*before.values(), *map(self.get, before)):
            subsystem = "" if device is None else device.subsystem
            self._members.pop(subsystem, None)
            self._sorted.pop(subsystem, None)
        return set(before)

    def records(self, name: str) -> bool:
        """Return whether a file of the udev database may be about what has been read."""
        if name in self._owners:
            return True
        if self._records is not None:
            # it may have disappeared, as all others may, one after another
            self._records.discard(name)
        # The first or the last record concerns every device, as does whether udevd runs.
        return self._records == set()

    def owners_of(self, records: Collection[str]) -> set[str]:
        """Return those of the devices that were read that files of the udev database are about."""
        self._has_records = False  # a new record may be about a device that has not been read
        if not records:
            return set()
        was_empty = UDEV_RECORDS in self.why_unreadable
        self._records = self._listed_records()
        if was_empty is bool(self._records):
            # udevd has just started, or its database is missing, which concerns every device.
            return set(self._owners.values())
        return {self._owners[name] for name in records if name in self._owners}

    def _linked(self, directory: str, entry: str) -> str | None:
        try:
            return _led_to(self._root, directory, entry)
        except OSError as error:
            self.why_unreadable[directory] = reason_of(error)
            return None

    def _entries(self, directory: str) -> list[str]:
        self.why_unreadable.pop(directory, None)
        return self._root.entries_if_any(directory, self.why_unreadable)

    def _read(self, syspath: str) -> SysDevice | None:
        for path in (syspath, *(f"{syspath}/{part}" for part in _PARTS)):
            self.why_unreadable.pop(path, None)
        try:
            text = self._text(f"{syspath}/uevent")
        except OSError as error:
            if error.errno in ABSENT:
                return None
            text = ""  # a few are write-only, but the device exists
            self.why_unreadable[f"{syspath}/uevent"] = reason_of(error)
        pairs = (line.partition("=") for line in lines_of(text))
        # The names are the same for thousands of devices: keep only one string for each.
        uevent = {intern(key): value for key, equals, value in pairs if key and equals}
        subsystem = intern(self._last_part(f"{syspath}/subsystem"))
        found = self._record(syspath, subsystem, uevent)
        record = found or UdevRecord()
        return SysDevice(
            syspath=syspath,
            subsystem=subsystem,
            devtype=uevent.get("DEVTYPE", ""),
            driver=self._last_part(f"{syspath}/driver"),
            properties=_properties(syspath, subsystem, uevent, record.properties),
            tags=record.tags,
            links=record.links,
            recorded=found is not None,
        )

    def _record(self, syspath: str, subsystem: str, uevent: dict[str, str]) -> UdevRecord | None:
        if not subsystem:
            return None
        name = record_name(syspath, subsystem, uevent)
        self._owners[name] = syspath
        if self._records is None or not self._has_records:
            # One listing instead of a failed open for each of the many devices without a record.
            self._records = self._listed_records()
            self._has_records = True
        if why := self.why_unreadable.get(UDEV_RECORDS):
            self.why_unreadable[syspath] = f"{UDEV_RECORDS} cannot be read: {why}"
        if name not in self._records:
            return None
        try:
            return parse_record(self._text(f"{UDEV_RECORDS}/{name}"))
        except OSError as error:
            if error.errno not in ABSENT:
                why = reason_of(error)
                self.why_unreadable[syspath] = f"{UDEV_RECORDS}/{name} cannot be read: {why}"
            return None

    def _listed_records(self) -> set[str]:
        names = set(self._entries(UDEV_RECORDS))
        if not names:
            # An exclude by a property must not treat that as "has no such property".
            self.why_unreadable.setdefault(UDEV_RECORDS, _NO_RECORDS)
        return names

    def _text(self, path: str) -> str:
        """Return the content of a file; bytes that are not UTF-8 are escaped."""

        def read() -> str:
            content = self._root.read_bytes(path, limit=_MAX_BYTES + 1)
            if len(content) > _MAX_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {_MAX_BYTES >> 10} KiB", path)
            return content.decode(errors="backslashreplace")

        return self.guard(path, read)

    def _last_part(self, link: str) -> str:
        try:
            return self._root.read_link(link).rstrip("/").rpartition("/")[2]
        except OSError as error:
            if error.errno not in ABSENT:
                self.why_unreadable[link] = reason_of(error)
            return ""


def udevd_runs(root: Root) -> bool:
    """Return whether a udevd is running, which writes a record of each new device."""
    try:
        root.lstat(_UDEV_SOCKET)
    except (OSError, HangsError):
        return False
    return True


def record_name(syspath: str, subsystem: str, uevent: Mapping[str, str]) -> str:
    """Return the name of a device's file in the database, as systemd's ``device_get_device_id``."""
    if {"MAJOR", "MINOR"} <= uevent.keys():
        kind = "b" if subsystem == "block" else "c"
        return f"{kind}{uevent['MAJOR']}:{uevent['MINOR']}"
    if subsystem == "net" and (index := uevent.get("IFINDEX")):
        return f"n{index}"
    return f"+{subsystem}:{syspath.rpartition('/')[2]}"


def lines_of(text: str) -> list[str]:
    """Split a file of udev or a ``uevent`` into lines as libudev does.

    A carriage return or NUL ends a line, too, and a line without an end does not count, because it
    may be incomplete.
    """
    if "\r" in text or "\0" in text:
        text = text.replace("\r", "\n").replace("\0", "\n")
    return text.split("\n")[:-1]


def parse_record(text: str) -> UdevRecord:
    """Parse a record; like libudev, ignore lines that are not understood.

    No record is half written: udevd replaces the whole file.
    """
    fields: dict[str, list[str]] = {}
    for line in lines_of(text):
        kind, colon, rest = line.partition(":")
        if colon and rest:
            fields.setdefault(kind, []).append(rest)
    pairs = (pair.partition("=") for pair in fields.get("E", ()))
    # The names are the same in thousands of records: keep only one string for each.
    properties = {intern(key): value for key, equals, value in pairs if key and equals}
    current_tags = _tags(fields.get("Q", ()))
    tags = current_tags | _tags(fields.get("G", ()))
    links = tuple(f"/dev/{link}" for link in fields.get("S", ()))
    initialized = [text for text in fields.get("I", ()) if text.isdecimal()]
    derived = {
        "USEC_INITIALIZED": initialized[-1] if initialized else "",
        "DEVLINKS": " ".join(links),
        "TAGS": f":{':'.join(sorted(tags))}:" if tags else "",
        "CURRENT_TAGS": f":{':'.join(sorted(current_tags))}:" if current_tags else "",
    }
    properties |= {key: value for key, value in derived.items() if value}
    return UdevRecord(properties=properties, tags=tags, links=links)


def _tags(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(text for text in texts if ":" not in text and " " not in text)


def _properties(
    syspath: str, subsystem: str, uevent: dict[str, str], recorded: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties as libudev does: the kernel's, the record's, and what it derives."""
    properties = {"DEVPATH": syspath.removeprefix("/sys"), **uevent}
    if subsystem:
        properties["SUBSYSTEM"] = subsystem
    if name := uevent.get("DEVNAME"):
        properties["DEVNAME"] = name if name.startswith("/dev/") else f"/dev/{name}"
    properties |= recorded
    return {key: value for key, value in properties.items() if value or key not in recorded}


def syspath_of(root: Root, file_type: FileType, number: tuple[int, int]) -> str | None:
    """Return the sysfs directory of a device number, as ``/sys/devices/…``, if it has one.

    Raise OSError if that is unknown.
    """
    return _led_to(root, f"/sys/dev/{file_type}", f"{number[0]}:{number[1]}")


def _led_to(root: Root, directory: str, entry: str) -> str | None:
    try:
        target = root.read_link(f"{directory}/{entry}")
    except OSError as error:
        # Not a link: an attribute file of a class itself, or anything in a damaged copy.
        if error.errno not in {errno.EINVAL, *ABSENT}:
            raise
        return None
    # /sys/devices has no links below it, so this need not read each directory.
    path = posixpath.normpath(posixpath.join(directory, target))
    return path if path.startswith(_DEVICES) else None


def plugged_of(read: Callable[[str], str], file_type: FileType, syspath: str | None) -> str:
    """Return the number that grows with each replug: a disk's ``diskseq``, or the USB device
    number. It is empty if the kernel has neither. A device number alone does not show a replug
    (D5). ``read`` returns a file's content, and raises OSError.
    """
    if syspath is None:
        return ""
    if file_type is FileType.BLOCK:
        # A partition has no such number of its own, but it is in its disk's directory.
        for directory in (syspath, syspath.rpartition("/")[0]):
            if sequence := read_attribute(read, directory, "diskseq"):
                return f"diskseq {sequence}"
    directory = syspath
    # Only for a USB device is it useful to read each directory above.
    while "/usb" in directory:
        number = read_attribute(read, directory, "devnum")
        if number and (bus := read_attribute(read, directory, "busnum")):
            return f"usb {bus}:{number}"
        directory = directory.rpartition("/")[0]
    return ""


def read_attribute(read: Callable[[str], str], syspath: str, name: str) -> str:
    """Return an attribute's text, stripped; empty if it cannot be read."""
    try:
        return read(f"{syspath}/{name}").strip()
    except OSError:
        return ""


def device_names(root: Root) -> dict[str, tuple[FileType, tuple[int, int]]]:
    """Return type and number of each device file that sysfs names, by its path below /dev.

    In a copied tree, a plain file represents a device node if it is named here.
    """
    names: dict[str, tuple[FileType, tuple[int, int]]] = {}
    for file_type in (FileType.CHAR, FileType.BLOCK):
        directory = f"/sys/dev/{file_type}"
        for entry in root.entries_if_any(directory, {}):
            major, _, minor = entry.partition(":")
            if major.isdecimal() and minor.isdecimal():
                uevent = read_attribute(root.read_text, f"{directory}/{entry}", "uevent")
                # in a copy, there is a line for each name of the node
                for line in uevent.splitlines():
                    if (name := line.removeprefix("DEVNAME=")) not in {"", line}:
                        names[name.removeprefix("/dev/")] = (file_type, (int(major), int(minor)))
    return names
