"""Other instances of genericdp on the node: what they serve, and what crashed ones have left."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import socket
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.kubelet.folder import PREFIX, Peer, digest_of, since_when
from genericdp.observed import until
from genericdp.printing import first_few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from genericdp.kubelet.folder import KubeletFolder, SocketIdentity
    from genericdp.observed import Observed

log = logging.getLogger(__name__)

MAX_NAMES = 5
_NAME = re.compile(rf"{PREFIX}(?P<digest>[0-9a-f]{{12}})-(?P<instance>[0-9a-f]{{8}})-[0-9]+\.sock")
_BURST_SECONDS = 0.05
"""The kubelet's own files in the folder come and go with each list."""
_RECHECK_SECONDS = 0.3
_LEFTOVER_AFTER_SECONDS = 60
"""A younger socket that refuses connections may be about to listen."""


class PeerWatch:
    """Keeps ``KubeletFolder.peers`` up to date, and logs which other instances come and leave.

    It removes the sockets of those that have crashed (K9).

    It holds a connection to each instance, whose end is an event: a process that was killed leaves
    its sockets behind, and they refuse connections. Connecting again and again instead would make
    gRPC in the other process use more and more memory.
    """

    def __init__(self, kubelet: KubeletFolder, resources: Callable[[], Iterable[str]]) -> None:
        self._kubelet = kubelet
        self._resources = resources
        self._connections: dict[str, socket.socket] = {}
        """By instance."""
        self._logged: set[str] = set()
        """The instances that run and have been logged."""
        self._dead_since: dict[Peer, float] = {}
        """Since when sockets that refuse connections are there, on the monotonic clock."""
        self._last: SocketIdentity | None = None
        """The kubelet.sock beside which they were seen."""

    async def run(self) -> None:
        """Look at each event, and for leftovers from time to time, forever."""
        events = self._kubelet.events
        try:
            while True:
                await until(lambda: self._kubelet.answers.value, self._kubelet.answers)
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
        """Look once, without waiting; return whether nothing has changed.

        Those of the last look stay if the folder is missing or cannot be read.
        """
        kubelet, before = self._kubelet, self._kubelet.peers.value
        with suppress(OSError):  # also if there is no free file descriptor
            kubelet.peers.value = self._running()
        if kubelet.socket.value != self._last:
            # With its folder, or when a kubelet starts, a socket goes, but not its owner.
            self._last = kubelet.socket.value
            self._logged.clear()
        is_unchanged = kubelet.peers.value == before
        if is_unchanged and self._last is not None:  # now all sockets of a new peer are there
            self._log_changes()
        return is_unchanged

    def _running(self) -> tuple[Peer, ...]:
        """Return the sockets of all other instances that run; raise OSError."""
        found: list[Peer] = []
        for name in sorted(os.listdir(self._kubelet.path)):  # noqa: PTH208  # Paths are expensive
            # Each list that the kubelet gets leads here: our own hundred sockets must cost nothing.
            if self._kubelet.instance in name or (parts := _NAME.fullmatch(name)) is None:
                continue
            with suppress(FileNotFoundError):
                status = (self._kubelet.path / name).lstat()
                if stat.S_ISSOCK(status.st_mode):
                    found.append(Peer(name=name, bound_ns=status.st_ctime_ns, **parts.groupdict()))
        known, self._dead_since = self._dead_since, {}
        running = set()
        for instance in {one.instance for one in found}:
            its = [one for one in found if one.instance == instance]
            if instance in self._connections or self._connect(instance, its):
                running.add(instance)
            else:
                self._dead_since |= {one: known.get(one) or since_when(one.bound_ns) for one in its}
        self._remove_leftovers()
        for instance in self._connections.keys() - running:
            self._disconnect(instance)
        return tuple(one for one in found if one.instance in running)

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
                return True  # it runs, and is too busy or stopped
            self._connections[instance] = connection
            loop = asyncio.get_running_loop()
            loop.add_reader(connection, self._read, instance, connection)
            return True
        return False

    def _read(self, instance: str, connection: socket.socket) -> None:
        """Discard what gRPC sends; disconnect at its end.

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
                    "another instance of genericdp (%s) serves on this node, too: %s; all is well"
                    " if that is a rolling update, else let only one of them serve it",
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
        """When an instance has left last, on the loop's clock."""
        self._oldest_ns = math.inf
        self._later: frozenset[str] = frozenset()
        """The instances that came after our socket, as far as they have been seen."""

    @property
    def current(self) -> Sequence[Peer]:
        """The peers that serve it now."""
        return [peer for peer in self._peers.value if peer.digest == self._digest]

    def set_own_socket(self, *, bound_ns: int, same_age_seconds: float) -> None:
        """Regard peers as later than our socket, which was bound then, from now on."""
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
        """Whether an instance that came after our socket is missing now."""
        return not self._later <= self._instances
