"""Which sockets in the kubelet's folder are of others that run."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from genericdp.kubelet.folder import KubeletFolder, Peer, PeerWatch, digest_of
from genericdp.observed import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def bind(path: Path, stack: ExitStack, *, listening: bool = True) -> socket.socket:
    """Make a socket; what a killed process has left is bound and refuses connections."""
    made = stack.enter_context(socket.socket(socket.AF_UNIX))
    made.bind(str(path))
    if listening:
        made.listen()
    return made


class Peers:
    """What is known of the other instances at a folder."""

    def __init__(self, kubelet: KubeletFolder, stack: ExitStack) -> None:
        self.kubelet = kubelet
        self._watch = PeerWatch(kubelet, resources=list)
        stack.callback(self._watch.close)

    def look(self) -> set[Peer]:
        self._watch.look()
        return set(self.kubelet.peers.value)

    async def ended(self) -> None:
        """Wait until something is told since the first look."""
        events = self.kubelet.events
        assert await until(lambda: events.value > 0, events, timeout_seconds=60)


async def test_only_instances_that_run_are_peers(short_folder: Path) -> None:
    """REG-13, K9: not we ourselves, and not what a killed one has left."""
    own, living, killed = (KubeletFolder(short_folder) for _ in range(3))
    with ExitStack() as stack:
        for names in (own, living, killed):
            for resource in ("a/b", "a/c"):
                path = short_folder / names.next_name(resource)
                bind(path, stack, listening=names is not killed)
        peers = Peers(own, stack)
        for found in (peers.look(), peers.look()):
            assert {one.instance for one in found} == {living.instance}
            assert {one.digest for one in found} == {digest_of("a/b"), digest_of("a/c")}


async def test_only_old_dead_sockets_of_ours_are_removed(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: what crashed runs left is removed; what lives, is new, or is another's stays."""
    own, living, killed, unknown = (KubeletFolder(short_folder) for _ in range(4))
    wall, monotonic = time.time, time.monotonic  # noqa: TID251
    with ExitStack() as stack:
        mine, dead = (short_folder / one.next_name("a/b") for one in (own, killed))
        live, plain = (short_folder / one.next_name("a/b") for one in (living, unknown))
        other = short_folder / "nvidia.sock"
        bind(live, stack)
        for path in (mine, dead, other):
            bind(path, stack, listening=False)
        plain.write_text("no socket")
        peers = Peers(own, stack)
        peers.look()
        assert dead.exists(), "younger than a minute: it may be about to listen"
        monkeypatch.setattr(time, "time", lambda: wall() + 3600)
        peers.look()
        assert dead.exists(), "only somebody has set the clock"
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 61)
        peers.look()
        assert {*short_folder.iterdir()} == {mine, live, plain, other}


async def test_one_socket_that_answers_is_enough(short_folder: Path) -> None:
    names = KubeletFolder(short_folder)
    with ExitStack() as stack:
        bind(short_folder / names.next_name("a/b"), stack, listening=False)
        bind(short_folder / names.next_name("a/c"), stack)
        assert len(Peers(KubeletFolder(short_folder), stack).look()) == 2


async def test_one_that_is_too_busy_to_answer_runs(short_folder: Path) -> None:
    """A process that is stopped takes no connections any more, once its queue is full."""
    path = short_folder / KubeletFolder(short_folder).next_name("a/b")
    with ExitStack() as stack:
        bind(path, stack).listen(0)
        waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
        waiting.connect(str(path))
        assert len(Peers(KubeletFolder(short_folder), stack).look()) == 1


async def test_the_end_of_one_that_is_killed_is_told(short_folder: Path) -> None:
    path = short_folder / KubeletFolder(short_folder).next_name("a/b")
    with ExitStack() as stack:
        listener = bind(path, stack)
        peers = Peers(KubeletFolder(short_folder), stack)
        assert peers.look()
        connection, _ = listener.accept()
        connection.send(b"settings")
        await asyncio.sleep(0)
        assert peers.look()
        connection.close()
        listener.close()
        await peers.ended()
        assert path.is_socket()
        assert not peers.look()


async def test_who_hangs_up_and_still_runs_is_called_again(short_folder: Path) -> None:
    """As gRPC does after a minute."""
    path = short_folder / KubeletFolder(short_folder).next_name("a/b")
    with ExitStack() as stack:
        listener = bind(path, stack)
        peers = Peers(KubeletFolder(short_folder), stack)
        peers.look()
        listener.accept()[0].close()
        await peers.ended()
        assert peers.look()
        listener.accept()[0].close()
        path.unlink()
        assert not peers.look()


async def test_nothing_is_known_of_peers_while_the_folder_is_gone(short_folder: Path) -> None:
    """What they serve is not over because of that."""
    folder, away = short_folder / "k", short_folder / "away"
    folder.mkdir()
    with ExitStack() as stack:
        bind(folder / KubeletFolder(short_folder).next_name("a/b"), stack)
        peers = Peers(KubeletFolder(folder), stack)
        before = peers.look()
        folder.rename(away)
        assert before
        assert peers.look() == before
        away.rename(folder)
        assert peers.look() == before


async def test_a_folder_that_is_not_there_has_none(short_folder: Path) -> None:
    with ExitStack() as stack:
        assert Peers(KubeletFolder(short_folder / "x"), stack).look() == set()
