"""Cache of what was read of the host, by path, until an event makes it stale."""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from genericdp.devices.sysdevice import START, Extract, PathTarget
from genericdp.host.devicefiles import DeviceFiles
from genericdp.host.sysfs import SysDevices
from genericdp.regex import TextTooLongError, extract
from genericdp.template import MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from genericdp.devices.inventory import Look
    from genericdp.host.root import Root

T = TypeVar("T")

CHANGED_FILES = "changed device files"
"""What is said to hang when a look at one of them does."""

MOST_BYTES = 1024 * 1024
"""Of a file that an expression searches; only what it finds is kept."""
_MOST_KEPT = 1024
"""Longer texts are read again whenever they are asked for: any number may be asked for."""

_LINKED = "attributes behind links"
"""Any device's event is taken for one of them, as ``device/vendor`` is another device's."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV})
"""Errors that say that there is no such file, or no longer. Fewer than of paths: what leads in a
circle or has too long a name could be anything, and a value may decide what is excluded."""

_HINTS = {MOST_TEXT: " (a value with file and regex can take a part of it)"}


@dataclass(slots=True)
class Stale:
    """What events have reported since the last reconcile, so that it has to be read again."""

    syspaths: set[str] = field(default_factory=set)
    """Devices, by their folders in sysfs."""
    records: set[str] = field(default_factory=set)
    """Files of the udev database, by name."""
    paths: set[str] = field(default_factory=set)
    """Entries of watched folders."""
    all_files: bool = False
    """Whether any watched folder may have changed."""


class HostCache:
    """Answers from a root, and remembers them until it is told to forget.

    One thread asks at a time; another one may ask meanwhile what it waits for. ``before`` gives
    what could be read earlier, for what cannot be read now.
    """

    def __init__(
        self,
        root: Root,
        before: HostCache | None = None,
        *,
        hanging: Collection[str] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.awaiting: Collection[str] = ()
        """Devices that have just appeared and that udev has yet to record."""
        self.folders: set[str] = set()
        """Where a change could change what globs find, of those asked for in this reconcile."""
        self._root = root
        self._hanging = frozenset(hanging)
        self._now = now
        self._waiting: tuple[str, float] | None = None
        """What is being read, and since when."""
        self.files: DeviceFiles = DeviceFiles(
            root, None if before is None else before.files, guard=self.guarded
        )
        """What is known of the paths of files."""
        self._looks: dict[str, Look] = {}
        """What globs have found in this reconcile."""
        self._devices = devices = SysDevices(root, guard=self.guarded)
        # The questions of ``Host`` that SysDevices answers as they are.
        self.device, self.ancestors = devices.get, devices.ancestors
        self.members, self.below = devices.members, devices.below
        self.subsystems = devices.subsystems
        self._texts: dict[str, dict[str, str | None]] = {}
        """By the device whose attribute it is; ``_LINKED``; empty: of no device."""
        self._extracts: dict[tuple[str, str], Extract | None] = {}
        """By a file and an expression that searched it."""
        self._troubles: dict[str, str] = {}

    def stuck(self, seconds: float) -> str:
        """Return what has been read for longer than that; empty if nothing. For another thread."""
        waiting = self._waiting  # read once: the thread goes on meanwhile
        return waiting[0] if waiting is not None and self._now() - waiting[1] > seconds else ""

    def forget(self, stale: Stale) -> None:
        """Begin a reconcile: ask again what events have told of, and what nothing tells of."""
        self._looks.clear()
        self.folders = set()
        if stale.all_files:
            self.files.forget_all()
        told = set(stale.syspaths)
        for name in stale.records:
            told.update(self._devices.syspaths_of_record(name))
        paths = stale.paths | told | self._device_files(told)
        self.files.forget(paths)
        if paths:
            told |= self.guarded(CHANGED_FILES, lambda: self._devices_at(stale.paths, paths))
        if told:
            told = self._devices.forget(told)
            for owner in (*told, _LINKED):
                self._forget_texts(owner)
            self.files.forget(told | self._device_files(told))
        if paths or stale.all_files:
            # Of files outside sysfs nothing tells: any event is taken for one of them.
            self._forget_texts("")
            for path, _ in self._extracts:
                self._troubles.pop(path, None)
            self._extracts.clear()

    def settle(self) -> None:
        """End a reconcile: what it has not asked for is not kept for what cannot be read."""
        self.files.settle()

    def _device_files(self, syspaths: Collection[str]) -> set[str]:
        """Return the paths of devices' files, and the links to them that udev has recorded."""
        devices = (one for one in map(self._devices.get, syspaths) if one is not None)
        return {path for one in devices for path in (one.device_file, *one.links) if path}

    def _devices_at(self, entries: Collection[str], paths: Collection[str]) -> set[str]:
        """Return the devices whose files lie at these paths.

        A file may be there before the kernel tells of its device: it is believed for ``entries``,
        and where nothing is known of the device.
        """
        files = {path: self.files.examine(path) for path in paths}
        return {
            file.identity.syspath
            for path, file in files.items()
            if file is not None
            and file.identity.syspath
            and (path in entries or self._devices.get(file.identity.syspath) is None)
        }

    def _forget_texts(self, owner: str) -> None:
        for path in self._texts.pop(owner, {}):
            self._troubles.pop(path, None)

    def guarded(self, what: str, read: Callable[[], T]) -> T:
        """Read something that may hang; raises TimeoutError if it is known to."""
        if what in self._hanging:
            raise TimeoutError("reading it does not end")
        # No context manager: that costs three times as much, 20,000 times in a look.
        outer, self._waiting = self._waiting, (what, self._now())
        try:
            return read()
        finally:
            self._waiting = outer and (outer[0], self._now())

    def look(self, pattern: str) -> Look | None:
        """Return what a glob finds; None if that is known to hang."""
        if pattern in self._hanging:
            return None
        if pattern not in self._looks:
            look = self.guarded(pattern, partial(self.files.look, pattern))
            self.folders |= look.folders
            self._looks[pattern] = look
        return self._looks[pattern]

    @property
    def unreadable(self) -> set[str]:
        """What could not be read of what globs were to find, and why."""
        return {look.trouble for look in self._looks.values() if look.trouble}

    def awaited(self, syspath: str) -> bool:
        """Return whether udev has yet to record a device that has just appeared."""
        if syspath not in self.awaiting:
            return False
        device = self._devices.get(syspath)
        return device is not None and not device.recorded

    def attribute(self, syspath: str, name: str) -> str | None:
        """Return the text of an attribute file below a device, stripped."""
        return self._remembered(_LINKED if "/" in name else syspath, f"{syspath}/{name}")

    def target_of(self, path: str) -> PathTarget:
        """Return where a path leads, also where there is nothing; to itself if that hangs."""
        try:
            return self.guarded(path, partial(self._root.target_of, path))
        except TimeoutError:
            return PathTarget(target=path)

    def text(self, path: str) -> str | None:
        """Return a file's content, stripped; None if it cannot be read or has more than 64 KiB.

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
            text = self.guarded(path, read)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._troubles[path] = error.strerror or str(error)
            return None
        if len(text) > most:
            self._troubles[path] = f"it has more than {most >> 10} KiB{_HINTS.get(most, '')}"
            return None
        return text.strip()

    def link(self, path: str) -> str | None:
        """Return the last part of what a path leads to when every link is followed."""
        target = self.target(path)
        return target and target.rpartition("/")[2]

    def target(self, path: str) -> str | None:
        """Return what a path leads to when every link is followed."""
        self._troubles.pop(path, None)
        try:
            return self.guarded(path, lambda: self._root.resolve(path).at)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._troubles[path] = error.strerror or str(error)
            return None

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that a glob finds, whatever they are."""
        look = self.look(pattern)
        return () if look is None else tuple(found.path for found in look.files)

    def dangling(self, pattern: str) -> tuple[str, ...]:
        """Return the links to nothing that a glob finds."""
        look = self.look(pattern)
        return () if look is None else look.dangling

    def trouble(self, path: str) -> str:
        """Return why a file, link or glob could not be read; empty if it was, or is not there.

        Of a device's folder: why what udev has recorded of it could not be.
        """
        if path in self._hanging:
            return "reading it does not end"
        look = self._looks.get(path)
        trouble = "" if look is None else look.trouble
        return trouble or self._troubles.get(path, "") or self._devices.trouble(path)
