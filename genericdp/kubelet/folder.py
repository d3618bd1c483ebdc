"""The kubelet's folder: kubelet.sock, and whether it is a new one; our sockets beside it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import stat
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.errors import KubeletError, UsageError
from genericdp.host import descriptors
from genericdp.host.inotify import ENTRIES, FolderWatch
from genericdp.host.workers import HangingError, in_worker
from genericdp.observed import Observed, Signal
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

KUBELET_SOCKET = "kubelet.sock"
PREFIX = "genericdp-"
LONGEST_NAME = f"{PREFIX}{'0' * 12}-{'0' * 8}-9999999.sock"
"""As long as a name of a socket can be."""
_MAX_PATH_BYTES = 107  # of a unix socket: sun_path has 108, one of them for the final NUL

_REGISTRATIONS_AT_ONCE = 32
"""Resources that register at the same time; fewer where few descriptors are allowed."""
_DESCRIPTORS_EACH = 128
"""Registering takes 5 of them, of which 2 stay in use: together hardly more than are spare."""
_DELETION_PAUSE = 0.02
_WATCHED_TIMES = 5
"""By this factor polls are rarer while inotify reports nearly everything (KST-3): waking up each
second cost as much as everything else that is done when nothing happens."""

SocketIdentity = tuple[int, int, int]
"""Filesystem, inode and time of the last change: an inode number alone is often reused (K4)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A socket of another instance of genericdp that runs."""

    name: str
    """The file's name."""
    digest: str
    """Of its resource, as ``digest_of`` returns it."""
    instance: str
    bound_ns: int
    """When it was created, by the clock of the filesystem."""


class KubeletFolder:
    """Watches one folder for all resources; ``socket`` is None while no kubelet is there."""

    def __init__(
        self,
        path: Path,
        *,
        poll_seconds: float = 1.0,
        watched_times: int = _WATCHED_TIMES,
        deletion_seconds: float = 1.0,
    ) -> None:
        check_length(path / LONGEST_NAME, "reach the kubelet's folder under a shorter path")
        self.path = path
        # Not the process ID: in a container it is 1 for each of two instances.
        self.instance = os.urandom(4).hex()
        """What the sockets of this process have in their names."""
        self._made = itertools.count(1)
        self.socket: Observed[SocketIdentity | None] = Observed(None)
        self._socket_since = 0.0  # on the monotonic clock
        self.absence = Observed("it has not been looked for yet")
        """Why there is no kubelet.sock; empty: there is one."""
        self.answers: Observed[bool] = Observed(value=False)
        """Whether the folder can be looked at: on a mount that hangs, that does not end."""
        at_once = min(_REGISTRATIONS_AT_ONCE, descriptors.count().most // _DESCRIPTORS_EACH)
        self.registrations = asyncio.Semaphore(max(1, at_once))
        """Limits how many plugins register at once: memory for many is never freed."""
        self.events = Signal()
        """Sent when something may have happened in the folder."""
        self.peers: Observed[Sequence[Peer]] = Observed(())
        """The sockets of other instances of genericdp that run."""
        self._looked = False
        self._unusable = Latch(log)
        self._poll_seconds, self._deletion_seconds = poll_seconds, deletion_seconds
        self._watched_times = watched_times

    async def watch(self) -> None:
        """Keep ``socket`` up to date, forever.

        Raise UsageError if the path is not a folder at the start, and KubeletError if the folder
        was deleted below a bind mount: inotify does not report that, and only a restart helps.
        """
        changed = asyncio.Event()
        watch = FolderWatch(lambda *_: changed.set(), what=f"the kubelet's folder {self.path}")
        try:
            while True:
                changed.clear()
                if not await self.check_answers():
                    await asyncio.sleep(self._poll_seconds)
                    self.events.send()  # events may have been missed
                    continue
                # Watch before looking, so that nothing that comes in between is missed.
                watch.set_folders({str(self.path): ENTRIES})
                await self._look_until_sure()
                # inotify does not report the deletion of a folder that is still open.
                is_quiet = watch.complete and self.socket.value is not None
                times = self._watched_times if is_quiet else 1
                try:
                    async with asyncio.timeout(self._poll_seconds * times):
                        await changed.wait()
                except TimeoutError:
                    if watch.complete:
                        continue
                self.events.send()
        finally:
            watch.close()

    async def check_answers(self) -> bool:
        """Look in a thread, and return whether that ends: the loop, on which all others look, must
        not hang with the folder.
        """
        try:
            await in_worker(partial(os.stat, self.path), str(self.path))
        except HangingError:
            self.absence.value = f"looking at {self.path} does not end"
            self.answers.value = False
            return False
        except OSError:
            pass  # the next look says why
        self.answers.value = True
        return True

    async def _look_until_sure(self) -> None:
        """Look; raise KubeletError only if the folder is still deleted a moment later.

        A deletion removes the folder's links first and its name afterwards, and the process may be
        preempted in between. Mostly it is over at once, and the next kubelet comes soon.
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
        """Look once; raise as ``watch`` does."""
        try:
            try:
                found, why = self._find_socket()
            except (UsageError, KubeletError):
                # A folder that is deleted between two calls seems to lack permissions, or links.
                found, why = self._find_socket()
        except (UsageError, OSError) as error:
            if not self._looked:  # at the start a person repairs it; later a mount may recover
                raise
            message = "the kubelet's folder cannot be used just now: %s"
            self._unusable.update(str(error), message, error, level=logging.ERROR)
            return
        self._unusable.update("", ended="the kubelet's folder can be used again")
        self._looked = True
        if why and why != self.absence.value:
            # Here and not in each plugin: one line for all of them.
            log.info("waiting for a kubelet: %s", why)
        self.absence.value = why
        if found is not None and found != self.socket.value:
            self._socket_since = since_when(found[2])
        self.socket.value = found

    @property
    def kubelet_age(self) -> float:
        """How long the kubelet has been running, in seconds; 0: there is none."""
        return 0.0 if self.socket.value is None else time.monotonic() - self._socket_since

    def _find_socket(self) -> tuple[SocketIdentity | None, str]:
        """Return kubelet.sock, or why there is none; raise if the folder cannot be used."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None, f"there is no folder {self.path}"
        except PermissionError as error:
            raise UsageError(f"no permission to look into {self.path}: run as root") from error
        if not stat.S_ISDIR(status.st_mode):
            if self._looked:  # the folder may come back, as one that is deleted does
                return None, f"{self.path} is not a folder"
            raise UsageError(
                f"{self.path} is not a folder (give the kubelet's device-plugins folder"
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


def find_socket(path: Path) -> tuple[SocketIdentity | None, str]:
    """Return the socket at a path, or why there is none."""
    try:
        status = path.stat()
    except OSError:
        return None, f"there is no {path}"
    if not stat.S_ISSOCK(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
        return None, f"{path} is a {kind}, not a socket (is this the kubelet's folder?)"
    return (status.st_dev, status.st_ino, status.st_ctime_ns), ""


def since_when(changed_ns: int) -> float:
    """Return since when a file that is seen for the first time is there, on the monotonic clock.

    The wall clock, by which files have their times, may have been set since then: what cannot be is
    not believed. So this is asked once for each file.
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
