"""Events: of devices from the kernel (uevents), of directories from inotify.

Each event only means that the owner has to read again. If events are unavailable, it has to poll.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from inotify_simple import INotify, flags, parse_events

from genericdp.devices.inventory import decimal
from genericdp.errors import reason_of
from genericdp.host.calls import HangsError, watched
from genericdp.host.workers import in_worker
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyudev
    from inotify_simple import Event

log = logging.getLogger(__name__)

# Without the files' content: a device that is written to must not wake the daemon.
ENTRIES = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.ATTRIB
CONTENTS = ENTRIES | flags.CLOSE_WRITE
# Without CREATE: a udev record that is read before it is written would be empty.
RECORDS = flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.CLOSE_WRITE
# Two paths may lead to one directory, which has a single watch with both masks.
_ALWAYS = flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR | flags.MASK_ADD

_BUFFER_BYTES = 16 * 1024 * 1024
_AT_ONCE = 256
"""Number of device events that are read, at about 30 µs each, before other tasks get a turn."""
_PAUSE_SECONDS = 0.1
"""Pause after device events were lost, because the flood may continue."""
_READ_BYTES = 65_536
"""At most 2,000 events are read before other tasks of the loop get a turn."""


class DirectoryWatch:
    """Watches directories; for a missing directory, its deepest existing ancestor.

    ``changed`` is called on the loop with the directory and the name of an entry that appeared,
    disappeared or changed. The name is None if anything in the directory may have changed: the
    directory itself appeared, disappeared or was replaced, or events were lost. The owner then has
    to call ``set_directories`` again.

    If inotify is unavailable, or cannot watch all directories, ``complete`` is False and the owner
    has to poll. Each call of ``set_directories`` tries again.
    """

    def __init__(self, changed: Callable[[str, str | None], None], *, what: str) -> None:
        self._changed = changed
        self._what = what
        """The purpose of the directories, for the log."""
        self._inotify: INotify | None = None
        self._watched: dict[str, tuple[int, str]] = {}
        """The watch's number by directory, and, if the watch is on an ancestor, the awaited
        entry.
        """
        self.complete = False
        self._polled = Latch(log)

    async def set_directories(self, directories: Mapping[str, int]) -> set[str]:
        """Watch these directories and no others, each for the events of its mask.

        Return those that are new, or have appeared, disappeared or been replaced since the last
        call. The owner has to read them again: they may have changed before the watch was set.
        """
        self.complete, before = True, self._watched
        numbers = {number for number, _ in before.values()}
        try:
            if self._inotify is None:
                self._inotify = INotify(nonblocking=True)
            with self._unread(self._inotify) as inotify:
                work = partial(_watch_all, inotify, directories, numbers)
                self._watched, errors = await in_worker(work, self._what)
        except OSError as error:
            self._poll_instead(error)
            return set()
        for why in errors:
            self._poll_instead(why)
        if self.complete:
            self._polled.update("", ended=f"{self._what} can be watched again")
        return {path for path, place in self._watched.items() if before.get(path) != place}

    @contextmanager
    def _unread(self, inotify: INotify) -> Iterator[INotify]:
        """Leave events in the queue meanwhile, because the directories of new watches are not
        known yet.
        """
        loop = asyncio.get_running_loop()
        loop.remove_reader(inotify.fileno())
        try:
            yield inotify
        finally:
            if not inotify.closed:
                loop.add_reader(inotify.fileno(), self._drain, inotify)

    def _poll_instead(self, error: OSError) -> None:
        self.complete = False
        is_limit = error.errno in {errno.EMFILE, errno.ENOSPC}
        self._polled.update(
            "polled",  # whatever else fails: the directories may fail for different reasons
            "%s cannot be watched (%s): polled instead%s",
            self._what,
            error.strerror,
            "; raise fs.inotify.max_user_instances and max_user_watches" if is_limit else "",
        )

    def close(self) -> None:
        """Stop watching."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None
            self._watched = {}
            self.complete = False

    def _drain(self, inotify: INotify) -> None:
        events = parse_events(os.read(inotify.fileno(), _READ_BYTES))
        by_number: dict[int, list[tuple[str, str]]] = {}
        for directory, (number, awaited) in self._watched.items():
            by_number.setdefault(number, []).append((directory, awaited))
        changes = [change for event in events for change in self._changes(event, by_number)]
        # The kernel reuses the number of a dropped watch: the next watch must count as new.
        dropped = {event.wd for event in events if event.mask & flags.IGNORED}
        self._watched = {
            directory: place
            for directory, place in self._watched.items()
            if place[0] not in dropped
        }
        for directory, name in dict.fromkeys(changes):
            self._changed(directory, name)

    def _changes(
        self, event: Event, by_number: Mapping[int, list[tuple[str, str]]]
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the directories that an event concerns, each with an entry; None for any entry."""
        if event.mask & flags.Q_OVERFLOW:
            yield from ((directory, None) for directory in self._watched)
        elif not event.mask & flags.IGNORED:  # arrives even for a watch that we have removed
            for directory, awaited in by_number.get(event.wd, ()):
                if event.name in {"", awaited}:
                    yield directory, None
                elif not awaited:
                    yield directory, event.name


def _watch_all(
    inotify: INotify, directories: Mapping[str, int], before: set[int]
) -> tuple[dict[str, tuple[int, str]], list[OSError]]:
    """Watch directories, each for the events of its mask, and end other watches of ``before``.

    Return the watches by directory, and why others cannot be watched.
    """
    found: dict[str, tuple[int, str]] = {}
    errors: list[OSError] = []
    numbers = set(before)
    for directory, mask in directories.items():
        try:
            # Added again each time: a directory that was replaced gets another number that way.
            found[directory] = _watch(inotify, directory, mask, numbers)
        except HangsError:
            errors.append(OSError(errno.ETIMEDOUT, f"reading {directory} timed out"))
        except OSError as error:
            errors.append(error)
    for number in numbers - {number for number, _ in found.values()}:
        with suppress(OSError):  # the kernel has removed it along with its directory
            inotify.rm_watch(number)
    return found, errors


def _watch(inotify: INotify, directory: str, mask: int, numbers: set[int]) -> tuple[int, str]:
    """Watch a directory, or its deepest existing ancestor for the entry that is missing there.

    Return the number of the watch and the name of that entry; raise OSError. Each number of a watch
    that was used on the way is added to ``numbers``.
    """
    if (number := _add(directory, inotify, mask, numbers)) is not None:
        return number, ""
    parent, name = os.path.split(directory)
    above, awaited = _watch(inotify, parent or ".", ENTRIES, numbers)
    if awaited:
        return above, awaited
    # Try again: it may have appeared before its parent was watched.
    number = _add(directory, inotify, mask, numbers)
    return (above, name) if number is None else (number, "")


@watched
def _add(directory: str, inotify: INotify, mask: int, numbers: set[int]) -> int | None:
    """Watch a directory; return None if it is missing."""
    try:
        number: int = inotify.add_watch(directory, mask | _ALWAYS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    numbers.add(number)
    return number


@dataclass(frozen=True, kw_only=True, slots=True)
class Uevent:
    """An event of one device."""

    action: str
    """``add``, ``remove``, ``change``, ``bind``, ``unbind``, ``move``, ``online``, ``offline``."""
    syspath: str
    former_syspath: str = ""
    """Its syspath before a ``move``."""
    subsystem: str = ""
    """The subsystem; empty if it is unknown."""
    number: tuple[int, int] | None = None
    """Major and minor number of its device file, if it has one."""


def open_monitor(buffer_bytes: int = _BUFFER_BYTES) -> pyudev.Monitor:
    """Open a monitor of kernel events; raise OSError or ImportError if that is impossible.

    The import takes 20 ms and runs ``ldconfig`` to find libudev, so it must not precede the first
    registration or run on the loop.
    """
    import pyudev

    monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
    with suppress(OSError):  # without CAP_NET_ADMIN it gets net.core.rmem_max
        monitor.set_receive_buffer_size(buffer_bytes)
    monitor.start()
    return monitor


class Uevents:
    """Calls ``changed`` on the loop for each event of a device; with None: read everything again.

    Events reach every network namespace and need no capability, except those of network
    interfaces: these stay in the interface's own namespace, and elsewhere only reading everything
    finds them. While ``complete`` is False, the owner has to poll.
    """

    def __init__(
        self,
        changed: Callable[[Uevent | None], None],
        *,
        again_seconds: float,
        open_monitor: Callable[[], pyudev.Monitor] = open_monitor,
    ) -> None:
        self._changed = changed
        self._again_seconds = again_seconds
        self._open_monitor = open_monitor
        self._polling = Latch(log)
        self.complete = False

    async def run(self) -> None:
        """Listen forever; whenever listening begins, everything is read again.

        A monitor that has lost events is replaced. If none can be opened, that is retried.
        """
        while True:
            try:
                await self._listen(await in_worker(self._open_monitor))
            except (OSError, ImportError) as error:
                why = f"kernel events are unavailable ({reason_of(error)}): polling instead"
                if self._polling.update(why, "%s", why):
                    self._changed(None)
                await asyncio.sleep(self._again_seconds)
            else:
                log.info("kernel events were lost: reading everything again")
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _listen(self, monitor: pyudev.Monitor) -> None:
        """Pass on the events of a monitor until it loses some."""
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(monitor.fileno(), self._drain, monitor, lost)
        self._polling.update("", ended="kernel events are available again")
        self.complete = True
        try:
            self._changed(None)
            await lost.wait()
        finally:
            self.complete = False
            loop.remove_reader(monitor.fileno())

    def _drain(self, monitor: pyudev.Monitor, lost: asyncio.Event) -> None:
        try:
            for _ in range(_AT_ONCE):
                if (device := monitor.poll(timeout=0)) is None:
                    return
                event = uevent_of(device)
                if event.syspath.startswith("/sys/devices/"):
                    self._changed(event)
        except (OSError, UnicodeError):
            lost.set()


def uevent_of(device: pyudev.Device) -> Uevent:
    """Convert an event without reading sysfs; raise UnicodeError."""
    get_property = device.properties.get
    former = get_property("DEVPATH_OLD") if device.action == "move" else None
    major, minor = (decimal(get_property(name) or "", max_digits=9) for name in ("MAJOR", "MINOR"))
    return Uevent(
        action=device.action,
        syspath=device.sys_path,
        former_syspath=f"/sys{former}" if former else "",
        subsystem=get_property("SUBSYSTEM") or "",
        number=None if major is None or minor is None else (major, minor),
    )
