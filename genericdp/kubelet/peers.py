"""Who else has sockets in the kubelet's folder: other instances of genericdp, and strangers."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.kubelet.registration import KUBELET_SOCKET
from genericdp.kubelet.sockets import PREFIX, parts_of, refuses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A socket of another instance of genericdp that runs."""

    name: str
    """The file's."""
    digest: str
    """Of its resource, as ``digest_of`` gives it."""
    instance: str
    bound_ns: int
    """When it was made, by the clock of the filesystem."""


class Peers:
    """Knows which other instances run, by a connection to each: what ends with it is no event.

    A process that was killed leaves its sockets behind; they refuse connections. To connect again
    and again instead would make the other one's gRPC grow.
    """

    def __init__(self, folder: Path, *, instance: str, ended: Callable[[], None]) -> None:
        self._folder = folder
        self._instance = instance
        self._ended = ended
        self._lines: dict[str, socket.socket] = {}
        self._seen: frozenset[Peer] = frozenset()
        self.folder: tuple[int, int] | None = None
        """Tells the folder that was looked at last from another one; None: there was none."""

    def look(self) -> frozenset[Peer]:
        """Give the sockets of all other instances that run; never waits.

        Where the folder is gone, or cannot be read, those of the look before.
        """
        try:
            status = self._folder.stat()
            names = os.listdir(self._folder)  # noqa: PTH208  # Paths are dear
        except (FileNotFoundError, NotADirectoryError):
            self.folder = None
            return self._seen
        except OSError:  # no descriptor is left, or no permission
            return self._seen
        self.folder = status.st_dev, status.st_ino
        self._seen = self._living(names)
        return self._seen

    def _living(self, names: Iterable[str]) -> frozenset[Peer]:
        by_instance: dict[str, list[Peer]] = {}
        for peer in _found(self._folder, names, but=self._instance):
            by_instance.setdefault(peer.instance, []).append(peer)
        for instance in self._lines.keys() - by_instance.keys():
            self._hang_up(instance)
        return frozenset(
            peer
            for instance, peers in by_instance.items()
            if instance in self._lines or self._call(instance, peers)
            for peer in peers
        )

    def close(self) -> None:
        """Hang up on all."""
        for instance in tuple(self._lines):
            self._hang_up(instance)

    def _call(self, instance: str, peers: Iterable[Peer]) -> bool:
        """Connect to an instance; says whether it runs."""
        for peer in peers:
            line = socket.socket(socket.AF_UNIX)
            line.settimeout(0)
            try:
                line.connect(str(self._folder / peer.name))
            except (ConnectionRefusedError, FileNotFoundError):
                line.close()
                continue
            except OSError:
                line.close()
                return True  # it is there and too busy, or stopped
            self._lines[instance] = line
            loop = asyncio.get_running_loop()
            loop.add_reader(line, self._listen, instance, line)
            return True
        return False

    def _listen(self, instance: str, line: socket.socket) -> None:
        """Take what gRPC says, which is nothing to us, and its end.

        It hangs up on who says nothing for a minute: the next look calls again.
        """
        try:
            if line.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._hang_up(instance)
        self._ended()

    def _hang_up(self, instance: str) -> None:
        line = self._lines.pop(instance)
        asyncio.get_running_loop().remove_reader(line)
        line.close()


def _found(folder: Path, names: Iterable[str], *, but: str) -> Iterator[Peer]:
    # Each list that the kubelet gets leads here: our own hundred sockets must cost nothing.
    for name in names:
        if not name.startswith(PREFIX) or but in name or (parts := parts_of(name)) is None:
            continue
        with suppress(OSError):
            made = (folder / name).lstat().st_ctime_ns
            yield Peer(name=name, digest=parts[0], instance=parts[1], bound_ns=made)


def strangers(folder: Path) -> tuple[str, ...]:
    """Give the sockets of other plugins that run, the newest first; may wait: not for the loop."""
    found: list[tuple[int, str]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            own = path.name.startswith(PREFIX) or path.name == KUBELET_SOCKET
            if not own and path.is_socket() and not refuses(path):
                found.append((path.lstat().st_ctime_ns, path.name))
    return tuple(name for _, name in sorted(found, reverse=True))
