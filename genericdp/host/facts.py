"""What can be asked about a host in one pass: devices of sysfs, attributes, files, links."""

from __future__ import annotations

import errno
import posixpath
from typing import TYPE_CHECKING

from genericdp.devices.sysdevice import START, Extract, Way
from genericdp.host.devicefiles import Looker
from genericdp.host.links import way_of
from genericdp.host.sysdevices import SysDevices
from genericdp.regex import TextTooLongError, extract
from genericdp.template import MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from genericdp.devices.sysdevice import SysDevice
    from genericdp.host.root import Root
    from genericdp.host.sysdevices import Guard

MOST_BYTES = 1024 * 1024
"""Of a file that an expression searches; only what it finds is kept."""
_MOST_KEPT = 1024
"""Longer texts are read again whenever they are asked for: any number may be asked for."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV})
"""Errors that say that there is no such file, or no longer. After any other one nobody knows."""

_HINTS = {MOST_TEXT: " (a value with file and regex can take a part of it)"}


class HostFacts:
    """Answers from a root, and remembers them until it is told to forget."""

    def __init__(self, root: Root, *, guard: Guard = lambda _, read: read()) -> None:
        self.awaiting: Collection[str] = ()
        """Devices that have just appeared and that udev has yet to record."""
        self._root = root
        self._devices = SysDevices(root, guard=guard)
        self._texts: dict[str, dict[str, str | None]] = {}
        """By the device whose attribute it is; empty: of no device."""
        self._extracts: dict[tuple[str, str], Extract | None] = {}
        """By a file and an expression that searched it."""
        self._readers: dict[str, set[str]] = {}
        """By a device, those whose attributes are read through links that lead to it."""
        self._troubles: dict[str, str] = {}
        self._dangling: dict[str, tuple[str, ...]] = {}
        self._members: dict[str, tuple[SysDevice, ...]] = {}

    @property
    def guard(self) -> Guard:
        """Called for each read that may hang."""
        return self._devices.guard

    @guard.setter
    def guard(self, guard: Guard) -> None:
        # It is not this object that the devices know: a cycle would outlive a full look.
        self._devices.guard = guard

    def forget(self, syspath: str) -> tuple[str, ...]:
        """Ask the host again about a device, and about all files outside sysfs.

        Gives it and all whose attributes are read through a link to it.
        """
        before = self._devices.get(syspath)
        self._devices.forget(syspath)
        for device in (before, self._devices.get(syspath)):
            self._members.pop("" if device is None else device.subsystem, None)
        for path, _ in self._extracts:
            self._troubles.pop(path, None)
        self._extracts.clear()
        concerned = (syspath, *self._readers.pop(syspath, ()))
        for owner in (*concerned, ""):
            for path in self._texts.pop(owner, {}):
                self._troubles.pop(path, None)
        return concerned

    def syspaths_of_record(self, name: str) -> tuple[str, ...]:
        """Give the devices that a file of the udev database is about."""
        return self._devices.syspaths_of_record(name)

    def awaited(self, syspath: str) -> bool:
        """Say whether udev has yet to record a device that has just appeared."""
        if syspath not in self.awaiting:
            return False
        device = self._devices.get(syspath)
        return device is not None and not device.recorded

    def device(self, syspath: str) -> SysDevice | None:
        """Give the device of a folder, or None if there is none."""
        return self._devices.get(syspath)

    def ancestors(self, device: SysDevice) -> Iterator[SysDevice]:
        """Give the devices that it sits on, the nearest first."""
        return self._devices.ancestors(device)

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        """Give the devices of a subsystem, in natural order of their syspaths."""
        if subsystem not in self._members:
            self._members[subsystem] = self._devices.members(subsystem)
        return self._members[subsystem]

    def below(self, folder: str, subsystem: str) -> tuple[SysDevice, ...]:
        """Give those of them that lie below a folder."""
        return self._devices.below(folder, subsystem)

    def subsystems(self) -> tuple[str, ...]:
        """Give the names of all subsystems."""
        return self._devices.subsystems()

    def attribute(self, syspath: str, name: str) -> str | None:
        """Give the text of an attribute file below a device, stripped."""
        path = f"{syspath}/{name}"
        if "/" in name and path not in self._texts.get(syspath, ()):
            for device in self._led_to(syspath, name):
                self._readers.setdefault(device, set()).add(syspath)
        return self._remembered(syspath, path)

    def _led_to(self, syspath: str, name: str) -> Iterator[str]:
        """Give the devices to which links in the name of an attribute lead: ``device/vendor``."""
        at = syspath
        for part in name.split("/")[:-1]:
            at = posixpath.normpath(f"{at}/{part}")
            try:
                target = self._root.read_link(at)
            except OSError:
                continue  # a folder of its own
            at = posixpath.normpath(posixpath.join(at.rpartition("/")[0], target))
            yield at
            owner = at
            while owner.startswith("/sys/devices/") and self._devices.get(owner) is None:
                owner = owner.rpartition("/")[0]
            yield owner

    def way(self, path: str) -> Way:
        """Return where a path leads, also where there is nothing; to itself if that hangs."""
        ways = []

        def look() -> str:
            ways.append(way_of(self._root, path))
            return ways[0].target

        try:
            self.guard(path, look)
        except TimeoutError:
            return Way(target=path)
        return ways[0]

    def text(self, path: str) -> str | None:
        """Give a file's content, stripped; None if it cannot be read or has more than 64 KiB.

        Links are not followed but for the kernel's own: ``way`` tells where they lead.
        """
        return self._remembered("", path)

    def extract(self, path: str, regex: str) -> Extract | None:
        """Return what an expression finds in a file; None if the file cannot be read."""
        if (path, regex) not in self._extracts:
            text, hit = self._read(path, MOST_BYTES), None
            if text is not None:
                try:
                    found = extract(regex, text)
                    hit = Extract(found or text[:START], found is not None)
                except TextTooLongError as error:
                    self._troubles[path] = str(error)
            self._extracts[path, regex] = hit
        return self._extracts[path, regex]

    def _remembered(self, owner: str, path: str) -> str | None:
        texts = self._texts.setdefault(owner, {})
        if path in texts:
            return texts[path]
        # An attribute may lie behind any link of sysfs; what else is read, at the path itself.
        text = self._read(path, MOST_TEXT, follow=bool(owner))
        if text is None or len(text) <= _MOST_KEPT:
            texts[path] = text
        return text

    def _read(self, path: str, most: int, *, follow: bool = False) -> str | None:
        def read() -> str:
            content = self._root.read_bytes(path, limit=most + 1, follow=follow)
            return content.decode(errors="backslashreplace")

        self._troubles.pop(path, None)
        try:
            text = self.guard(path, read)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._troubles[path] = error.strerror or str(error)
            return None
        if len(text) > most:
            self._troubles[path] = f"it has more than {most >> 10} KiB{_HINTS.get(most, '')}"
            return None
        return text.strip()

    def link(self, path: str) -> str | None:
        """Give the last part of what a path leads to when every link is followed."""
        target = self.target(path)
        return target and target.rpartition("/")[2]

    def target(self, path: str) -> str | None:
        """Give what a path leads to when every link is followed."""
        self._troubles.pop(path, None)
        try:
            return self._root.resolve(path).at
        except OSError as error:
            if error.errno not in _ABSENT:
                self._troubles[path] = error.strerror or str(error)
            return None

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that a glob finds, whatever they are."""
        look = Looker(self._root).look(pattern)
        self._dangling[pattern] = look.dangling
        self._troubles.pop(pattern, None)
        if look.trouble:
            self._troubles[pattern] = look.trouble
        return tuple(found.path for found in look.files)

    def dangling(self, pattern: str) -> tuple[str, ...]:
        """Return the links to nothing that a glob found when ``paths`` was asked about it."""
        return self._dangling.get(pattern, ())

    def trouble(self, path: str) -> str:
        """Return why a file, link or glob could not be read; empty if it was, or is not there.

        Of a device's folder: why what udev has recorded of it could not be.
        """
        return self._troubles.get(path, "") or self._devices.trouble(path)
