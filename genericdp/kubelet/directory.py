"""The kubelet's directory: kubelet.sock, our sockets next to it, and those of other instances."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import math
import os
import re
import socket
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.errors import KubeletError, UsageError
from genericdp.host import descriptors
from genericdp.host.events import ENTRIES, DirectoryWatch
from genericdp.host.workers import HangingError, in_worker
from genericdp.observed import Observed, Signal, until
from genericdp.printing import first_few
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

KUBELET_SOCKET = "kubelet.sock"
PREFIX = "genericdp-"
LONGEST_NAME = f"{PREFIX}{'0' * 12}-{'0' * 8}-9999999.sock"
"""The longest possible name of a socket."""
_MAX_PATH_BYTES = 107  # of a unix socket: sun_path has 108, one of them for the final NUL

_REGISTRATIONS_AT_ONCE = 32
"""How many resources register at the same time; fewer if few descriptors are allowed."""
_DESCRIPTORS_EACH = 128
"""Registering needs 5 descriptors, of which 2 stay in use: together about as many as are spare."""
_DELETION_PAUSE = 0.02
_WATCHED_TIMES = 5
"""Polling is this many times slower while inotify works (KST-3): waking up each second costs as
much as everything else that an idle daemon does."""

MAX_NAMES = 5
_SOCKET_NAME = re.compile(
    rf"{PREFIX}(?P<digest>[0-9a-f]{{12}})-(?P<instance>[0-9a-f]{{8}})-[0-9]+\.sock"
)
_BURST_SECONDS = 0.05
"""The kubelet's own files, which appear and disappear with each list."""
_RECHECK_SECONDS = 0.3
_LEFTOVER_AFTER_SECONDS = 60
"""A younger socket that refuses connections may be about to listen."""

SocketIdentity = tuple[int, int, int]
"""Filesystem, inode and time of the last change: an inode number alone is often reused (K4)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A socket of another instance of genericdp that runs."""

    name: str
    """The file's name."""
    digest: str
    """The digest of its resource, from ``digest_of``."""
    instance: str
    bound_ns: int
    """When it was created, by the clock of the filesystem."""


class KubeletDirectory:
    """Watches one directory for all resources; ``socket`` is None without a kubelet."""

    def __init__(
        self,
        path: Path,
        *,
        poll_seconds: float = 1.0,
        watched_times: int = _WATCHED_TIMES,
        deletion_seconds: float = 1.0,
    ) -> None:
        check_length(path / LONGEST_NAME, "reach the kubelet's directory under a shorter path")
        self.path = path
        # Not the process ID: in a container it is 1 for each of two instances.
        self.instance = os.urandom(4).hex()
        """The part of socket names that identifies this process."""
        self._made = itertools.count(1)
        self.socket: Observed[SocketIdentity | None] = Observed(None)
        self._socket_since = 0.0  # on the monotonic clock
        self.absence = Observed("it has not been looked for yet")
        """Why kubelet.sock is missing; empty if it is there."""
        self.is_readable: Observed[bool] = Observed(value=False)
        """Whether reading the directory ends: on a mount that hangs, it does not."""
        at_once = min(_REGISTRATIONS_AT_ONCE, descriptors.count().most // _DESCRIPTORS_EACH)
        self.registrations = asyncio.Semaphore(max(1, at_once))
        """Limits how many plugins register at once: gRPC never frees the memory for many."""
        self.events = Signal()
        """Sent when something may have changed in the directory."""
        self.peers: Observed[Sequence[Peer]] = Observed(())
        """The sockets of other instances of genericdp that run."""
        self._looked = False
        self._unusable = Latch(log)
        self._poll_seconds, self._deletion_seconds = poll_seconds, deletion_seconds
        self._watched_times = watched_times

    async def watch(self) -> None:
        """Keep ``socket`` up to date, forever.

        Raise UsageError if the path is not a directory at the start, and KubeletError if the
        directory was deleted below a bind mount: inotify does not report that, and only a restart
        helps.
        """
        events = self.events
        watch = DirectoryWatch(
            lambda *_: events.send(), what=f"the kubelet's directory {self.path}"
        )
        try:
            while True:
                has_news = events.watch()
                if not await self.check_readable():
                    await asyncio.sleep(self._poll_seconds)
                    events.send()  # some may have been missed
                    continue
                # Watch before reading, so that nothing in between is missed.
                await watch.set_directories({str(self.path): ENTRIES})
                await self._look_until_sure()
                # inotify does not report the deletion of a directory that is still open.
                is_quiet = watch.complete and self.socket.value is not None
                times = self._watched_times if is_quiet else 1
                seconds = self._poll_seconds * times
                is_news = await until(has_news, events, timeout_seconds=seconds)
                if not (is_news or watch.complete):
                    events.send()
        finally:
            watch.close()

    async def check_readable(self) -> bool:
        """Read the directory in a thread, and return whether that ends: the loop, which reads it
        later, must not hang with it.
        """
        try:
            await in_worker(partial(os.stat, self.path), self.path)
        except HangingError:
            self.absence.value = f"reading {self.path} timed out"
            self.is_readable.value = False
            return False
        except OSError:
            pass  # the next read reports why
        self.is_readable.value = True
        return True

    async def _look_until_sure(self) -> None:
        """Read the directory; raise KubeletError only if it is still deleted a moment later.

        A deletion removes the directory's links first and its name afterwards, and the process may
        be preempted in between. Usually the deletion ends at once, and the next kubelet starts
        soon.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._deletion_seconds
        while True:
            try:
                return self.look()
            except KubeletError:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(_DELETION_PAUSE)

    def next_name(self, resource: str) -> str:
        """Return a name for a socket, never the same twice (REG-11), and always short (K8)."""
        return f"{PREFIX}{digest_of(resource)}-{self.instance}-{next(self._made)}.sock"

    def look(self) -> None:
        """Read the directory once; raise as ``watch`` does."""
        try:
            try:
                found, why = self._find_socket()
            except (UsageError, KubeletError):
                # A directory that is deleted between two calls seems to lack permissions, or links.
                found, why = self._find_socket()
        except (UsageError, OSError) as error:
            if not self._looked:  # at the start a user has to repair it; later a mount may recover
                raise
            message = "the kubelet's directory cannot be used just now: %s"
            self._unusable.update(str(error), message, error, level=logging.ERROR)
            return
        self._unusable.update("", ended="the kubelet's directory can be used again")
        self._looked = True
        if why and why != self.absence.value:
            # Logged here and not by each plugin: one line for all of them.
            log.info("waiting for a kubelet: %s", why)
        self.absence.value = why
        if found is not None and found != self.socket.value:
            self._socket_since = since_when(found[2])
        self.socket.value = found

    @property
    def kubelet_age(self) -> float:
        """Return how long the kubelet has been running, in seconds; 0 without a kubelet."""
        return 0.0 if self.socket.value is None else time.monotonic() - self._socket_since

    def _find_socket(self) -> tuple[SocketIdentity | None, str]:
        """Return kubelet.sock, or why it is missing; raise if the directory cannot be used."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None, f"there is no directory {self.path}"
        except PermissionError as error:
            raise UsageError(f"no permission to look into {self.path}: run as root") from error
        if not stat.S_ISDIR(status.st_mode):
            if self._looked:  # the directory may come back, like a deleted one
                return None, f"{self.path} is not a directory"
            raise UsageError(
                f"{self.path} is not a directory (give the kubelet's device-plugins directory"
                " with --kubelet-dir)"
            )
        if status.st_nlink == 0:
            raise KubeletError(
                f"{self.path} was deleted below its mount and cannot come back: restarting helps"
            )
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise UsageError(
                f"no permission to make sockets in {self.path}:"
                " run as root, on a mount that is not read-only"
            )
        return find_socket(self.path / KUBELET_SOCKET)


class PeerWatch:
    """Keeps ``KubeletDirectory.peers`` up to date, and logs which other instances come and leave.

    It removes the sockets of those that have crashed (K9).

    It keeps a connection to each instance, whose end is an event: a killed process leaves its
    sockets behind, and they refuse connections. Connecting repeatedly instead would make gRPC in
    the other process use more and more memory.
    """

    def __init__(self, kubelet: KubeletDirectory, resources: Callable[[], Iterable[str]]) -> None:
        self._kubelet = kubelet
        self._resources = resources
        self._connections: dict[str, socket.socket] = {}
        """Connections by instance."""
        self._logged: set[str] = set()
        """The instances that run and have been logged."""
        self._dead_since: dict[Peer, float] = {}
        """Since when sockets that refuse connections have existed, on the monotonic clock."""
        self._last: SocketIdentity | None = None
        """The kubelet.sock that existed when they were seen."""

    async def run(self) -> None:
        """Handle each event, and remove leftovers from time to time, forever."""
        events = self._kubelet.events
        try:
            while True:
                await until(lambda: self._kubelet.is_readable.value, self._kubelet.is_readable)
                has_news = events.watch()
                seconds = _LEFTOVER_AFTER_SECONDS if self.look() else _RECHECK_SECONDS
                await asyncio.sleep(_BURST_SECONDS)
                await until(has_news, events, timeout_seconds=seconds)
        finally:
            self.close()

    def close(self) -> None:
        """Close all connections."""
        for instance in tuple(self._connections):
            self._disconnect(instance)

    def look(self) -> bool:
        """Read the sockets once, without waiting; return whether nothing has changed.

        The last peers stay if the directory is missing or cannot be read.
        """
        kubelet, before = self._kubelet, self._kubelet.peers.value
        with suppress(OSError):  # even without a free file descriptor
            kubelet.peers.value = self._running()
        if kubelet.socket.value != self._last:
            # When its directory is deleted or a kubelet starts, a socket disappears, but not its
            # owner.
            self._last = kubelet.socket.value
            self._logged.clear()
        is_unchanged = kubelet.peers.value == before
        if is_unchanged and self._last is not None:  # now all sockets of a new peer exist
            self._log_changes()
        return is_unchanged

    def _running(self) -> tuple[Peer, ...]:
        """Return the sockets of all other instances that run; raise OSError."""
        found: list[Peer] = []
        for name in sorted(os.listdir(self._kubelet.path)):  # noqa: PTH208  # Paths are expensive
            # Each list to the kubelet leads here, so our own hundred sockets must cost nothing.
            if self._kubelet.instance in name or (parts := _SOCKET_NAME.fullmatch(name)) is None:
                continue
            with suppress(FileNotFoundError):
                status = (self._kubelet.path / name).lstat()
                if stat.S_ISSOCK(status.st_mode):
                    found.append(Peer(name=name, bound_ns=status.st_ctime_ns, **parts.groupdict()))
        known, self._dead_since = self._dead_since, {}
        running = set()
        for instance in {bound.instance for bound in found}:
            sockets = [bound for bound in found if bound.instance == instance]
            if instance in self._connections or self._connect(instance, sockets):
                running.add(instance)
            else:
                self._dead_since |= {
                    bound: known.get(bound) or since_when(bound.bound_ns) for bound in sockets
                }
        self._remove_leftovers()
        for instance in self._connections.keys() - running:
            self._disconnect(instance)
        return tuple(bound for bound in found if bound.instance in running)

    def _remove_leftovers(self) -> None:
        """Remove the sockets of instances that do not run, unless they are new."""
        for peer, since in self._dead_since.items():
            if time.monotonic() - since > _LEFTOVER_AFTER_SECONDS:
                with suppress(OSError):
                    (self._kubelet.path / peer.name).unlink()
                    log.info("removed %s, left by a run that crashed", peer.name)

    def _connect(self, instance: str, peers: Iterable[Peer]) -> bool:
        """Connect to an instance; return whether it runs."""
        for peer in peers:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(0)
            try:
                connection.connect(str(self._kubelet.path / peer.name))
            except (ConnectionRefusedError, FileNotFoundError):
                connection.close()
                continue
            except OSError:
                connection.close()
                return True  # it runs, but is too busy or stopped
            self._connections[instance] = connection
            loop = asyncio.get_running_loop()
            loop.add_reader(connection, self._read, instance, connection)
            return True
        return False

    def _read(self, instance: str, connection: socket.socket) -> None:
        """Discard the data from gRPC; disconnect when it ends.

        gRPC closes a connection that sends nothing for a minute: the next look connects again.
        """
        with suppress(OSError):
            if connection.recv(4096):
                return
        self._disconnect(instance)
        self._kubelet.events.send()

    def _disconnect(self, instance: str) -> None:
        connection = self._connections.pop(instance)
        asyncio.get_running_loop().remove_reader(connection)
        connection.close()

    def _log_changes(self) -> None:
        served: dict[str, set[str]] = {}
        for peer in self._kubelet.peers.value:
            served.setdefault(peer.instance, set()).add(peer.digest)
        for instance in sorted(self._logged - served.keys()):
            log.info("the other instance of genericdp (%s) has gone", instance)
            self._logged.remove(instance)
        names = {digest_of(name): name for name in self._resources()}
        for instance in sorted(served.keys() - self._logged):
            if common := sorted(names[digest] for digest in served[instance] & names.keys()):
                self._logged.add(instance)
                log.warning(
                    "another instance of genericdp (%s) serves on this node, too: %s; expected"
                    " during a rolling update; otherwise remove one instance",
                    instance,
                    first_few(common, MAX_NAMES),
                )


class ResourcePeers:
    """The peers that serve one resource; call ``update`` whenever any peers have changed."""

    def __init__(self, peers: Observed[Sequence[Peer]], resource: str) -> None:
        self._peers = peers
        self._digest = digest_of(resource)
        self._instances: frozenset[str] = frozenset()
        self.left_at = -math.inf
        """When an instance last left, on the loop's clock."""
        self._oldest_ns = math.inf
        self._later: frozenset[str] = frozenset()
        """The instances that started after our socket was bound, as far as they have been seen."""

    @property
    def current(self) -> Sequence[Peer]:
        """The peers that serve it now."""
        return [peer for peer in self._peers.value if peer.digest == self._digest]

    def set_own_socket(self, *, bound_ns: int, same_age_seconds: float) -> None:
        """Record when our socket was bound: from now on, newer peers count as later."""
        self._oldest_ns = bound_ns - same_age_seconds * 10**9
        self._later = frozenset()
        self.update()

    def update(self) -> bool:
        """Record which instances serve it now; return whether one has left."""
        here = frozenset(peer.instance for peer in self.current)
        if has_left := not self._instances <= here:
            self.left_at = asyncio.get_running_loop().time()
        self._instances = here
        self._later |= {peer.instance for peer in self.current if peer.bound_ns > self._oldest_ns}
        return has_left

    @property
    def later_left(self) -> bool:
        """Return whether an instance that started after our socket was bound is missing now."""
        return not self._later <= self._instances


def find_socket(path: Path) -> tuple[SocketIdentity | None, str]:
    """Return the socket at a path, or why it is missing."""
    try:
        status = path.stat()
    except OSError:
        return None, f"there is no {path}"
    if not stat.S_ISSOCK(status.st_mode):
        kind = "directory" if stat.S_ISDIR(status.st_mode) else "file"
        return None, f"{path} is a {kind}, not a socket (is this the kubelet's directory?)"
    return (status.st_dev, status.st_ino, status.st_ctime_ns), ""


def since_when(changed_ns: int) -> float:
    """Return since when a newly seen file has existed, on the monotonic clock.

    The wall clock, which determines the times of files, may have been set since then, so impossible
    times are ignored. So call this once for each file.
    """
    age = time.time() - changed_ns / 10**9  # noqa: TID251  # as the times of files
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic() - min(max(age, 0.0), uptime)


def digest_of(resource: str) -> str:
    """Return the digest of a resource in the names of its sockets, of any instance."""
    return hashlib.sha256(resource.encode()).hexdigest()[:12]


def check_length(path: Path, remedy: str) -> None:
    """Raise UsageError if a unix socket cannot have a path."""
    if (length := len(os.fsencode(path))) > _MAX_PATH_BYTES:
        raise UsageError(
            f"{path} has {length} bytes, but the path of a unix socket has at most"
            f" {_MAX_PATH_BYTES}: {remedy}"
        )
