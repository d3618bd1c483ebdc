"""Cache of host reads by path, which events invalidate; reads run in a worker thread.

A read that hangs affects only devices under that path.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from genericdp.devices.paths import PathTarget
from genericdp.errors import HostError, reason_of
from genericdp.glob import escape
from genericdp.host.calls import HangsError
from genericdp.host.devicefiles import DeviceFiles
from genericdp.host.root import ABSENT, target_of, upwards
from genericdp.host.sysfs import SysDevices, udevd_runs
from genericdp.host.workers import HANGING_SECONDS, Work, leave_alone, start
from genericdp.repeat import Latch, delay_after
from genericdp.template import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from genericdp.devices.inventory import FoundFile, Look
    from genericdp.host.events import Uevent
    from genericdp.host.root import Root

T = TypeVar("T")

log = logging.getLogger(__name__)

RECORD_SECONDS = 2.0
"""How long a new device waits for udev to record its properties."""

NEXT_LOOK_SECONDS = 1.0
"""The limit once something else hangs in the same reconcile: a whole server may be unreachable."""

AGAIN_SECONDS = 2.0
"""After this time, files that could not be read are read again,"""
MAX_AGAIN_SECONDS = 30.0
"""then after twice the time whenever that fails, up to this limit."""

_MAX_KEPT = 1024
"""Longer content is not cached, since any number of files may be read."""

_LINKED = "attributes behind links"
"""Any device's event may concern one of these: ``device/vendor``, for example, is another
device's file.
"""
_HINTS = {MAX_TEXT: " (a value with file and regex can take a part of it)"}


@dataclass(slots=True)
class Stale:
    """Paths and devices that events have invalidated since the last reconcile."""

    syspaths: set[str] = field(default_factory=set)
    """Devices, by their directories in sysfs."""
    records: set[str] = field(default_factory=set)
    """Files of the udev database, by name."""
    paths: set[str] = field(default_factory=set)
    """Entries of watched directories."""
    all_files: bool = False
    """Whether any watched directory may have changed."""
    everything: bool = False
    """Whether events were lost, so that everything may have changed."""


class HostCache:
    """Caches reads of a root until ``forget``.

    One thread uses it at a time; meanwhile another one may ask what that thread is waiting for.
    ``before`` has earlier results, for files that cannot be read now.
    """

    def __init__(self, root: Root, before: HostCache | None = None) -> None:
        self.awaiting: Collection[str] = ()
        """Devices that have just appeared and that udev has yet to record."""
        self.directories: set[str] = set()
        """Directories whose changes could change the results of globs that were read in this
        reconcile.
        """
        self.hanging: set[str] = set()
        """Paths whose reads hung in this reconcile."""
        self.found_awaited: set[str] = set()
        """The devices in ``awaiting`` that this reconcile needed and that have no record."""
        self._root = root
        self._reading = ""
        """The path that is being read; empty if none."""
        self._seen = set[str]()
        """All paths on the way to files that were read."""
        self.files: DeviceFiles = self._other_files(None if before is None else before.files)
        """Cached results for device files and globs."""
        self._looks: dict[str, Look] = {}
        """Results of globs in this reconcile."""
        self._devices = devices = SysDevices(root, guard=self.guarded, seen=self._seen)
        # The methods of ``Host`` that SysDevices provides unchanged.
        self.device, self.ancestors = devices.get, devices.ancestors
        self.members, self.below = devices.members, devices.below
        self.subsystems = devices.subsystems
        self._texts: dict[str, dict[tuple[str, int], str | None]] = {}
        """Paths by the device that has the attribute, by ``_LINKED``, or by an empty string for
        other files.
        """
        self._places = set[str]()
        """Directories in sysfs of attributes that are outside their device's own directory."""
        self._why_unreadable: dict[str, str] = {}
        self._sees: Callable[[str], bool] | None = None

    async def run(
        self, work: Callable[[HostCache], T], seconds: float, stale: Stale | None = None
    ) -> Work[T]:
        """Run ``work`` in a daemon thread until it ends, or until one system call takes too long.

        Return its future; if that is not done, ``what`` it reads hangs. Stale entries are read
        again.
        """

        def job() -> T:
            self.forget(stale or Stale())
            return work(self)

        working = start(job)
        while not await working.ends(seconds):
            working.what = self._reading or working.path
            if working.what:
                working.is_given_up = True
                break
        return working

    def forget(self, stale: Stale) -> None:
        """Begin a reconcile: forget entries that events concern, and those that no event
        reports.
        """
        self._looks.clear()
        self.hanging.clear()
        self.found_awaited.clear()
        self._sees = None
        self.directories = set()
        if stale.all_files:
            is_elsewhere, self.files = self.files.is_elsewhere, self._other_files(self.files)
            self.files.is_elsewhere = is_elsewhere  # because the content from there is kept
        changed = stale.syspaths | self._devices.owners_of(stale.records)
        paths = stale.paths | changed | self._device_files(changed)
        self.files.forget(paths)
        if paths:
            changed |= self._devices_at(stale.paths, paths)
        if changed:
            changed = self._devices.forget(changed)
            for owner in (*changed, _LINKED):
                self._forget_texts(owner)
            devices = [device for device in map(self._devices.get, changed) if device is not None]
            numbers = {device.number for device in devices}
            self.files.forget(changed | self._device_files(changed), numbers)
        if paths or stale.all_files:
            # No event reports files outside sysfs: each of these events may concern one of them.
            self._forget_texts("")

    def _other_files(self, before: DeviceFiles | None) -> DeviceFiles:
        return DeviceFiles(self._root, before, guard=self.guarded, seen=self._seen)

    def concerns(self, event: Uevent | str) -> bool:
        """Return whether an event may be about what was read; the cache must not be in use.

        ``event`` is a uevent, a path, or the name of a file of the udev database. Files that no
        event reports, such as those in /proc, are read again when an event is about a path.
        """
        if isinstance(event, str):
            return self.files.has_met(event) if "/" in event else self._devices.records(event)
        files, subsystem = self.files, event.subsystem
        paths = {event.syspath, event.former_syspath} - {""}
        return (
            files.is_elsewhere
            or files.has_node(event.number)
            or self._devices.lists(subsystem)
            or any(map(files.has_met, (*paths, f"/sys/bus/{subsystem}", f"/sys/class/{subsystem}")))
            or any(
                path in self._texts or not self._places.isdisjoint(upwards(path)) for path in paths
            )
        )

    def _device_files(self, syspaths: Collection[str]) -> set[str]:
        """Return the paths of devices' files, and the links to them that udev has recorded."""
        devices = (device for device in map(self._devices.get, syspaths) if device is not None)
        return {path for device in devices for path in (device.device_file, *device.links) if path}

    def _devices_at(self, entries: Collection[str], paths: Collection[str]) -> set[str]:
        """Return the devices whose files are at these paths.

        A file may appear before the uevent of its device. Such a file counts if it is among
        ``entries``, or if its device is unknown.
        """
        files: dict[str, FoundFile | None] = {}
        for path in paths:
            with suppress(TimeoutError):
                files[path] = self.guarded(path, partial(self.files.examine, path))
        return {
            file.identity.syspath
            for path, file in files.items()
            if file is not None
            and file.identity.syspath
            and (path in entries or self._devices.get(file.identity.syspath) is None)
        }

    def _forget_texts(self, owner: str) -> None:
        for path, _ in self._texts.pop(owner, {}):
            self._why_unreadable.pop(path, None)

    def guarded(self, what: str, read: Callable[[], T]) -> T:
        """Read something that may hang; raises TimeoutError if it is known to hang."""
        outer, self._reading = self._reading, what
        try:
            return read()
        except HangsError:
            self.hanging.add(what)
            raise TimeoutError("reading it timed out") from None
        finally:
            self._reading = outer

    def look(self, pattern: str) -> Look | None:
        """Return the result of a glob; None if reading it is known to hang."""
        if pattern not in self._looks and pattern not in self.hanging:
            with suppress(TimeoutError):
                look = self.guarded(pattern, partial(self.files.look, pattern))
                self.directories |= look.directories
                self._looks[pattern] = look
        return self._looks.get(pattern)

    @property
    def unreadable(self) -> dict[str, str]:
        """Return why paths cannot be read: only the first path of each directory, and none below
        another.
        """
        why = self.files.why_unreadable
        first: dict[str, str] = {}
        for path in sorted(why):
            directory = path.rpartition("/")[0] or "/"
            if directory not in why:
                first.setdefault(directory, path)
        return {path: why[path] for path in first.values()}

    def awaited(self, syspath: str) -> bool:
        """Return whether udev has yet to record a device that has just appeared."""
        if syspath not in self.awaiting:
            return False
        device = self._devices.get(syspath)
        if device is None or device.recorded:
            return False
        self.found_awaited.add(syspath)
        return True

    def attribute(self, syspath: str, name: str) -> str | None:
        """Return the text of an attribute file below a device, stripped."""
        return self._remembered(_LINKED if "/" in name else syspath, f"{syspath}/{name}")

    def target(self, path: str) -> PathTarget:
        """Return the target of a path, even if it does not exist; the path itself if reading
        hangs.
        """
        try:
            return self.guarded(path, lambda: target_of(self.files.walk(path)))
        except TimeoutError:
            return PathTarget(target=path)

    def mount_target(self, path: str) -> PathTarget:
        """Return the same for a path to be mounted, whose links are watched for changes."""
        pattern = escape(path)
        if self.look(pattern) is None:
            return PathTarget(target=path)
        return self.guarded(pattern, partial(self.files.mount_target, path))

    def exists_on_host(self, path: str) -> bool | None:
        """Return whether a path exists; None if that cannot be seen or read.

        A path that hangs is useless: a container with it would never start.
        """
        pattern = escape(path)
        if self.look(pattern) is None:
            return False
        if self._sees is None:
            self._sees = self._root.seeing()
        return self.guarded(pattern, partial(self.files.exists, path, self._sees))

    def text(self, path: str, *, limit: int = MAX_TEXT) -> str | None:
        """Return a file's content, stripped; None if it cannot be read or has more bytes than that.

        Only the kernel's own links are followed: ``target`` returns where others lead.
        """
        return self._remembered("", path, limit)

    def _remembered(self, owner: str, path: str, limit: int = MAX_TEXT) -> str | None:
        texts = self._texts.setdefault(owner, {})
        if (path, limit) in texts:
            return texts[path, limit]
        directory = path.rpartition("/")[0]

        def read() -> bytes:
            if owner != directory and path.startswith("/sys/"):
                self._places.add(self.files.place_of(directory))
            # An attribute may be behind any link of sysfs; all other files are at the path itself.
            return self._root.read_bytes(path, limit=limit + 1, follow_symlinks=bool(owner))

        content = self._tried(path, read)
        if content is not None and len(content) > limit:
            content = None
            self._why_unreadable[path] = (
                f"it has more than {limit >> 10} KiB{_HINTS.get(limit, '')}"
            )
        text = None if content is None else content.decode(errors="backslashreplace").strip()
        if text is None or len(text) <= _MAX_KEPT:
            texts[path, limit] = text
        return text

    def _tried(self, path: str, read: Callable[[], T]) -> T | None:
        """Return the result of reading a path; None if that fails, and record the reason."""
        self._why_unreadable.pop(path, None)
        try:
            return self.guarded(path, read)
        except OSError as error:
            if error.errno not in ABSENT:
                self._why_unreadable[path] = reason_of(error)
            return None

    def realpath(self, path: str) -> str | None:
        """Return the target of a path when every link is followed; None if it does not exist."""

        def read() -> str:
            walk = self.files.walk(path)
            walk.check()
            return walk.at

        return self._tried(path, read)

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that a glob finds, of any type."""
        look = self.look(pattern)
        return () if look is None else tuple(found.path for found in look.files)

    def why_unreadable(self, path: str) -> str:
        """Return why a file, link or glob could not be read; empty if it was read or does not
        exist.

        For a device's directory: why its udev record could not be read.
        """
        if path in self.hanging:
            return "reading it timed out"
        if (look := self._looks.get(path)) is not None and look.unreadable:
            return look.unreadable
        own, of_devices = self._why_unreadable, self._devices.why_unreadable
        return own.get(path, "") or of_devices.get(path, "")


class HostReader:
    """Owns the cache of the host; events make its entries stale."""

    def __init__(
        self,
        root: Root,
        *,
        look_again: Callable[[], None],
        look_seconds: float = HANGING_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directories: frozenset[str] = frozenset()
        """The directories whose changes require a reconcile; paths of the host."""
        self.due: float | None = None
        """When to read again without an event, on the monotonic clock, in seconds."""
        self._root = root.wary()
        self._look_again = look_again
        self._look_seconds = look_seconds
        self._now = now
        self._host = HostCache(self._root)
        self._stale = Stale()
        self._is_asking = False
        self._unjudged: dict[Uevent | str, None] = {}
        """Events that came during a read, which are judged when it ends."""
        self._blind = Latch(log)
        """Whether nothing can be concluded from the host now."""
        self._unreadable: dict[str, str] = {}
        """What could not be read in the last reconcile, and why."""
        self._attempts = 0
        self._again = 0.0
        """When to read unreadable paths again."""
        self._arrived: dict[str, float] = {}
        """When a device was added. A node may be found before its device, so any device counts."""

    def _ask_everything(self) -> None:
        """Begin an empty cache, so that everything is read."""
        self._host = HostCache(self._root, self._host)

    def mark_event(self, event: Uevent | None) -> None:
        """Invalidate entries that a uevent concerns; None invalidates everything."""
        if event is not None and event.action == "add":
            self._arrived[event.syspath] = self._now()
        elif event is not None and event.action == "remove":
            self._arrived.pop(event.syspath, None)
        self._mark(event)

    def mark_record(self, name: str | None) -> None:
        """Invalidate a udev record, if it was read; None invalidates everything."""
        self._mark(name)

    def mark_file(self, path: str | None) -> None:
        """Invalidate a path of the host, if it was read, because it may lead elsewhere now.

        None invalidates any path.
        """
        if path is not None:
            self._mark(path)
        else:
            self._stale.all_files = True
            self._look_again()

    def _mark(self, event: Uevent | str | None) -> None:
        if self._is_asking and event is not None:
            self._unjudged[event] = None
        elif self._makes_stale(event):
            self._look_again()

    def _makes_stale(self, event: Uevent | str | None) -> bool:
        """Record what to read again after an event; return whether there is anything."""
        stale = self._stale
        if event is None:
            stale.everything = True
        elif not self._host.concerns(event):
            return False
        elif isinstance(event, str):
            (stale.paths if "/" in event else stale.records).add(event)
        else:
            stale.syspaths |= {event.syspath, event.former_syspath} - {""}
        return True

    async def ask(
        self,
        make_work: Callable[[], Callable[[HostCache], T]],
        *,
        full: bool = True,
        wants_records: bool = False,
    ) -> T:
        """Run work in a daemon thread, and in a new one if that hangs; return its result.

        With ``full``, everything is read again, else stale entries. ``wants_records`` shows whether
        the work uses udev records. Raises what the work raises; waits while nothing can be read.
        """
        self._is_asking = True
        try:
            return await self._ask(make_work, full=full, wants_records=wants_records)
        finally:
            self._is_asking = False
            events, self._unjudged = self._unjudged, {}
            if any([*map(self._makes_stale, events)]):
                self._look_again()

    async def _ask(
        self, make_work: Callable[[], Callable[[HostCache], T]], *, full: bool, wants_records: bool
    ) -> T:
        stale, self._stale = self._stale, Stale()
        waiting = self._waiting(stale)
        if full or stale.everything:
            self._ask_everything()
            stale = Stale()
        if not wants_records:
            waiting = {}
        patience = self._look_seconds
        while True:
            host = self._host
            host.awaiting = frozenset(waiting)
            result = await host.run(make_work(), patience, stale)
            blind = result.exception() if result.done() else None
            if result.done() and blind is None:
                host.files.drop_outdated()
                self._log_unreadable(host.unreadable)
                due = [waiting[syspath] for syspath in host.found_awaited]
                due += [self._again] if self._unreadable else []
                self.directories, self.due = frozenset(host.directories), min(due, default=None)
                return result.result()
            # The thread may still write into its cache.
            self._ask_everything()
            stale = Stale()
            if blind is None:
                self._give_up(result)
                patience = min(self._look_seconds, NEXT_LOOK_SECONDS)
            elif isinstance(blind, HostError | HangsError):  # nothing can be concluded now
                message = "cannot read the host (%s): keeping the last known state"
                self._blind.update("blind", message, blind)  # whatever path the error is about
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                raise blind

    def _waiting(self, stale: Stale) -> dict[str, float]:
        """Return the devices that have just appeared, and until when to wait for udev's records.

        Only if udev runs. Once that time is over, a device is ``stale``, because it was read before
        udev could record it.
        """
        now = self._now()
        late = {
            syspath for syspath, since in self._arrived.items() if now - since >= RECORD_SECONDS
        }
        stale.syspaths |= set(filter(self._host.files.has_met, late))
        for syspath in late:
            del self._arrived[syspath]
        if not self._arrived or not udevd_runs(self._root):
            return {}
        return {syspath: since + RECORD_SECONDS for syspath, since in self._arrived.items()}

    def _log_unreadable(self, unreadable: dict[str, str]) -> None:
        """Log paths that have become unreadable or readable in this reconcile; plan when to
        retry.
        """
        self._blind.update("", ended="the host can be read again")
        before, self._unreadable = self._unreadable, unreadable
        new = sorted(unreadable.keys() - before.keys())
        for path in new:
            log.warning(
                "%s cannot be read (%s); keeping the last known state", path, unreadable[path]
            )
        for path in sorted(before.keys() - unreadable.keys()):
            log.info("%s can be read again", path)
        now = self._now()
        if new or now >= self._again:
            self._attempts = 1 if new else self._attempts + 1
            self._again = now + delay_after(self._attempts, AGAIN_SECONDS, MAX_AGAIN_SECONDS)

    def _give_up(self, result: Work[Any]) -> None:
        """Abandon the thread until its read ends, if ever; then read again."""
        leave_alone(result)

        def ended(_: Work[Any]) -> None:  # its results are out of date anyway
            self._ask_everything()  # the current cache knows that it hangs
            self._look_again()

        result.add_done_callback(ended)
