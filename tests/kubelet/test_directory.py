"""The kubelet's directory: it and its socket come and go; our sockets, and those of others."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from genericdp.errors import KubeletError
from genericdp.kubelet.directory import KubeletDirectory, Peer, PeerWatch, digest_of
from genericdp.observed import until

from tests.polling import others_run


def make_socket(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "kubelet.sock"))


@asynccontextmanager
async def watching(
    path: Path, poll_seconds: float = 60.0, **keys: int
) -> AsyncIterator[KubeletDirectory]:
    """With a poll so slow that only inotify can have reported."""
    directory = KubeletDirectory(path, poll_seconds=poll_seconds, **keys)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(directory.watch())
        await others_run()
        yield directory
        task.cancel()


async def sees(directory: KubeletDirectory, *, there: bool = True) -> None:
    """Wait until the directory's socket is there, or is not."""

    def is_so() -> bool:
        return (directory.socket.value is not None) is there

    assert await until(is_so, directory.socket, timeout_seconds=60)


async def test_a_socket_that_comes_is_seen_by_inotify_alone(short_directory: Path) -> None:
    async with watching(short_directory) as directory:
        await sees(directory, there=False)
        make_socket(short_directory)
        await sees(directory)


@pytest.mark.parametrize(("set_by", "oldest"), [(0, 60), (-3600, 60), (1e9, 1e9)])
def test_the_age_of_a_kubelet_is_that_of_its_socket_whoever_sets_the_clock(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch, set_by: float, oldest: float
) -> None:
    wall = time.time  # noqa: TID251
    directory = KubeletDirectory(short_directory)
    assert directory.kubelet_age == 0
    make_socket(short_directory)
    monkeypatch.setattr(time, "time", lambda: wall() + set_by)
    directory.look()
    first, uptime = directory.kubelet_age, time.clock_gettime(time.CLOCK_BOOTTIME)
    assert min(max(set_by, 0), uptime - 60) <= first <= min(oldest, uptime + 60)
    monkeypatch.setattr(time, "time", lambda: wall() - 1e9)
    directory.look()
    assert first <= directory.kubelet_age <= first + 60
    (short_directory / "kubelet.sock").unlink()
    directory.look()
    assert directory.kubelet_age == 0


def test_a_socket_with_the_same_inode_number_is_another_one(short_directory: Path) -> None:
    """K4: the number is used again at once on many filesystems; the time of change shows."""
    make_socket(short_directory)
    directory = KubeletDirectory(short_directory)
    directory.look()
    first = directory.socket.value
    directory.look()
    assert directory.socket.value is first, "K5: it is the one that is known"
    (short_directory / "kubelet.sock").chmod(0o700)
    directory.look()
    assert directory.socket.value not in {None, first}


def test_a_file_that_takes_the_directories_place_later_is_waited_out(short_directory: Path) -> None:
    """Found by a new user: it ended the daemon, where a deleted directory is waited for."""
    path = short_directory / "kubelet"
    path.mkdir()
    directory = KubeletDirectory(path)
    directory.look()
    path.rmdir()
    path.touch()
    directory.look()
    assert directory.absence.value == f"{path} is not a directory"
    path.unlink()
    path.mkdir()
    make_socket(path)
    directory.look()
    assert directory.socket.value is not None


@contextmanager
def deleted(place: Path) -> Iterator[Path]:
    """Make a link to a deleted directory, which has no links, just as a mount of one."""
    doomed = place.with_name("doomed")
    doomed.mkdir()
    descriptor = os.open(doomed, os.O_PATH)
    doomed.rmdir()
    place.symlink_to(f"/proc/self/fd/{descriptor}")
    try:
        yield place
    finally:
        os.close(descriptor)


async def test_a_directory_that_is_deleted_below_its_mount_is_waited_for_and_then_ends_the_daemon(
    short_directory: Path,
) -> None:
    """Inotify does not report it, and only a restarted pod sees a new directory.

    While a directory is just being deleted, it looks the same for a moment: with real kubelets on
    a busy machine, the daemon ended, or registered twice.
    """
    make_socket(short_directory)
    with deleted(short_directory / "kubelet") as path:
        begun = time.monotonic()
        with pytest.raises(KubeletError, match="deleted below its mount"):
            await KubeletDirectory(path, deletion_seconds=0.1).watch()
        assert time.monotonic() - begun > 0.1
        async with watching(path, 1.0, deletion_seconds=3600) as directory:
            (short_directory / "next").symlink_to(short_directory)
            (short_directory / "next").replace(path)
            await sees(directory)


async def test_a_directory_that_somebody_holds_open_while_it_is_deleted_is_found_again(
    short_directory: Path,
) -> None:
    """inotify reports its end when no one holds it any more: a new kubelet was found 5 s later."""
    path = short_directory / "kubelet"
    path.mkdir()
    make_socket(path)
    held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        async with watching(path, 0.05, watched_times=1_000_000) as directory:
            await sees(directory)
            (path / "kubelet.sock").unlink()
            await sees(directory, there=False)
            path.rmdir()
            path.mkdir()
            make_socket(path)
            await sees(directory)
    finally:
        os.close(held)


def test_names_of_sockets_are_short_and_never_repeat(short_directory: Path) -> None:
    """K8: whatever the resource is called."""
    directories = KubeletDirectory(short_directory), KubeletDirectory(short_directory)
    name = "d" * 244 + "/" + "n" * 63
    made = [directory.next_name(name) for directory in directories for _ in range(100)]
    assert len(set(made)) == 200
    assert all(len(name) <= 75 for name in made)


class Peers:
    """The sockets of instances in a directory, and what one of them knows of the others."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.own, self.other = KubeletDirectory(directory), KubeletDirectory(directory)
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

    async def reported(self, times: int) -> None:
        """Wait until the ends of connections have been reported so often."""
        events = self.own.events
        assert await until(lambda: events.value >= times, events, timeout_seconds=60)


@pytest.fixture
async def peers(short_directory: Path) -> AsyncIterator[Peers]:
    (directory := short_directory / "k").mkdir()
    with ExitStack() as stack:
        yield Peers(directory, stack)


async def test_only_instances_that_run_are_peers(peers: Peers) -> None:
    """REG-13, K9: not we ourselves, nor what a killed one has left; one answer is enough."""
    killed = KubeletDirectory(peers.directory)
    for names in (peers.own, peers.other, killed):
        for resource in ("a/b", "a/c"):
            answers = names is not killed and (names, resource) != (peers.other, "a/b")
            peers.bind(names.next_name(resource), listening=answers)
    for found in (peers.look(), peers.look()):
        assert {peer.instance for peer in found} == {peers.other.instance}
        assert {peer.digest for peer in found} == {digest_of("a/b"), digest_of("a/c")}


async def test_only_old_dead_sockets_of_ours_are_removed(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: what crashed runs left is removed; what lives, is new, or is another's stays."""
    wall, monotonic = time.time, time.monotonic  # noqa: TID251
    mine, dead, foreign = peers.own.next_name("a/b"), peers.other.next_name("a/b"), "nvidia.sock"
    live, plain = KubeletDirectory(peers.directory).next_name("a/b"), peers.other.next_name("a/b")
    peers.bind(live)
    for name in (mine, dead, foreign):
        peers.bind(name, listening=False)
    (peers.directory / plain).write_text("no socket")

    def left() -> set[str]:
        peers.look()
        return {path.name for path in peers.directory.iterdir()}

    assert dead in left(), "younger than a minute: it may be about to listen"
    monkeypatch.setattr(time, "time", lambda: wall() + 3600)
    assert dead in left(), "only someone has set the clock"
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 61)
    assert left() == {mine, live, plain, foreign}


async def test_one_that_is_too_busy_to_answer_runs(peers: Peers) -> None:
    """A process that is stopped takes no connections any more, once its queue is full."""
    listener = peers.bind(peers.other.next_name("a/b"))
    listener.listen(0)
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(listener.getsockname())
        assert len(peers.look()) == 1


async def test_the_end_of_one_is_told_unless_it_has_only_hung_up(peers: Peers) -> None:
    """gRPC hangs up after a minute; what is killed leaves its socket."""
    name = peers.other.next_name("a/b")
    listener = peers.bind(name)
    assert peers.look()
    listener.accept()[0].close()
    await peers.reported(1)
    assert peers.look()
    listener.accept()[0].close()
    listener.close()
    await peers.reported(2)
    assert (peers.directory / name).is_socket()
    assert not peers.look()


async def test_nothing_is_known_of_peers_while_the_directory_is_gone(peers: Peers) -> None:
    """Their resources are still served."""
    away = peers.directory.with_name("away")
    peers.bind(peers.other.next_name("a/b"))
    before = peers.look()
    assert before
    peers.directory.rename(away)
    assert peers.look() == before
    away.rename(peers.directory)
    assert peers.look() == before
