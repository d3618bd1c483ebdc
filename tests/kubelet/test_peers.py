"""Test which sockets in the kubelet's directory are of others that run."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from genericdp.kubelet.directory import KubeletDirectory, Peer, PeerWatch, digest_of
from genericdp.observed import until

from tests.polling import others_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Peers:
    """The sockets of instances in a directory, and what one of them knows of the others."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.own = KubeletDirectory(directory)
        self._stack = stack
        self._watch = PeerWatch(self.own, resources=list)
        stack.callback(self._watch.close)

    def bind(self, name: str, *, listening: bool = True) -> socket.socket:
        """Make a socket; what a killed process has left is bound and refuses connections."""
        made = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        made.bind(str(self.directory / name))
        if listening:
            made.listen()
        return made

    def look(self) -> set[Peer]:
        self._watch.look()
        return set(self.own.peers.value)

    async def ended(self) -> None:
        """Wait until something is reported since the first look."""
        events = self.own.events
        assert await until(lambda: events.value > 0, events, timeout_seconds=60)


@pytest.fixture
async def peers(short_directory: Path) -> AsyncIterator[Peers]:
    (directory := short_directory / "k").mkdir()
    with ExitStack() as stack:
        yield Peers(directory, stack)


def name_of_another(peers: Peers) -> str:
    return KubeletDirectory(peers.directory).next_name("a/b")


async def test_only_instances_that_run_are_peers(peers: Peers) -> None:
    """REG-13, K9: not we ourselves, and not what a killed one has left."""
    living, killed = KubeletDirectory(peers.directory), KubeletDirectory(peers.directory)
    for names in (peers.own, living, killed):
        for resource in ("a/b", "a/c"):
            peers.bind(names.next_name(resource), listening=names is not killed)
    for found in (peers.look(), peers.look()):
        assert {peer.instance for peer in found} == {living.instance}
        assert {peer.digest for peer in found} == {digest_of("a/b"), digest_of("a/c")}


async def test_only_old_dead_sockets_of_ours_are_removed(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: what crashed runs left is removed; what lives, is new, or is another's stays."""
    wall, monotonic = time.time, time.monotonic  # noqa: TID251
    mine, dead, other = peers.own.next_name("a/b"), name_of_another(peers), "nvidia.sock"
    live, plain = name_of_another(peers), name_of_another(peers)
    peers.bind(live)
    for name in (mine, dead, other):
        peers.bind(name, listening=False)
    (peers.directory / plain).write_text("no socket")

    def left() -> set[str]:
        peers.look()
        return {path.name for path in peers.directory.iterdir()}

    assert dead in left(), "younger than a minute: it may be about to listen"
    monkeypatch.setattr(time, "time", lambda: wall() + 3600)
    assert dead in left(), "only someone has set the clock"
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 61)
    assert left() == {mine, live, plain, other}


async def test_one_socket_that_answers_is_enough(peers: Peers) -> None:
    names = KubeletDirectory(peers.directory)
    peers.bind(names.next_name("a/b"), listening=False)
    peers.bind(names.next_name("a/c"))
    assert len(peers.look()) == 2


async def test_one_that_is_too_busy_to_answer_runs(peers: Peers) -> None:
    """A process that is stopped takes no connections any more, once its queue is full."""
    listener = peers.bind(name_of_another(peers))
    listener.listen(0)
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(listener.getsockname())
        assert len(peers.look()) == 1


async def test_the_end_of_one_that_is_killed_is_told(peers: Peers) -> None:
    name = name_of_another(peers)
    listener = peers.bind(name)
    assert peers.look()
    connection, _ = listener.accept()
    connection.send(b"settings")
    await others_run()
    assert peers.look()
    connection.close()
    listener.close()
    await peers.ended()
    assert (peers.directory / name).is_socket()
    assert not peers.look()


async def test_who_hangs_up_and_still_runs_is_called_again(peers: Peers) -> None:
    """As gRPC does after a minute."""
    name = name_of_another(peers)
    listener = peers.bind(name)
    peers.look()
    listener.accept()[0].close()
    await peers.ended()
    assert peers.look()
    listener.accept()[0].close()
    (peers.directory / name).unlink()
    assert not peers.look()


async def test_nothing_is_known_of_peers_while_the_directory_is_gone(peers: Peers) -> None:
    """Their resources are still served."""
    away = peers.directory.with_name("away")
    peers.directory.rename(away)
    assert peers.look() == set()
    away.rename(peers.directory)
    peers.bind(name_of_another(peers))
    before = peers.look()
    assert before
    peers.directory.rename(away)
    assert peers.look() == before
    away.rename(peers.directory)
    assert peers.look() == before
