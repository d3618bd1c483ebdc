"""Who else has sockets in the kubelet's folder: other instances of genericdp, and strangers."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.kubelet.registration import KUBELET_SOCKET
from genericdp.kubelet.sockets import PREFIX, parts_of, refuses

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def living_peers(folder: Path, *, instance: str) -> frozenset[Peer]:
    """Give the sockets of all other instances that run; connects to one of each: not on the loop.

    A process that was killed leaves its sockets behind; they refuse connections.
    """
    by_instance: dict[str, list[Peer]] = {}
    with suppress(OSError):
        for peer in _peers(folder, but=instance):
            by_instance.setdefault(peer.instance, []).append(peer)
    return frozenset(
        peer
        for peers in by_instance.values()
        if not all(refuses(folder / one.name) for one in peers)
        for peer in peers
    )


def _peers(folder: Path, *, but: str) -> Iterator[Peer]:
    # Each list that the kubelet gets leads here: our own hundred sockets must cost nothing.
    names = [name for name in os.listdir(folder) if name.startswith(PREFIX) and but not in name]  # noqa: PTH208
    for name in names:
        if (parts := parts_of(name)) is None:
            continue
        with suppress(FileNotFoundError):
            made = (folder / name).lstat().st_ctime_ns
            yield Peer(name=name, digest=parts[0], instance=parts[1], bound_ns=made)


def strangers(folder: Path) -> tuple[str, ...]:
    """Give the sockets of other plugins that run, the newest first. Not on the loop, as above."""
    found: list[tuple[int, str]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            own = path.name.startswith(PREFIX) or path.name == KUBELET_SOCKET
            if not own and path.is_socket() and not refuses(path):
                found.append((path.lstat().st_ctime_ns, path.name))
    return tuple(name for _, name in sorted(found, reverse=True))
