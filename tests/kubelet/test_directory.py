"""The kubelet's directory: it and its socket come and go; our sockets, and those of others."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path, PosixPath

import pytest
from genericdp.errors import KubeletError, UsageError
from genericdp.kubelet.directory import KubeletDirectory, Peer, PeerWatch, digest_of
from genericdp.observed import until

from tests.polling import others_run

IS_NO_SOCKET = "{} is a {}, not a socket (is this the kubelet's directory?)"


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


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.touch, IS_NO_SOCKET.format("{}", "file")),
        (Path.mkdir, IS_NO_SOCKET.format("{}", "directory")),
        (lambda path: path.symlink_to("nowhere"), "there is no {}"),
    ],
    ids=["file", "directory", "link"],
)
def test_what_is_no_socket_is_told_once_as_what_it_is(
    make: Callable[[Path], None], said: str, short_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    directory, path = KubeletDirectory(short_directory), short_directory / "kubelet.sock"
    directory.look()
    make(path)
    for _ in range(2):
        directory.look()
    assert directory.socket.value is None
    reported = dict.fromkeys(
        f"waiting for a kubelet: {text}".format(path) for text in ("there is no {}", said)
    )
    assert caplog.messages == list(reported)


@pytest.mark.parametrize(("set_by", "oldest"), [(0, 60), (-3600, 60), (30, 90), (1e9, 1e9)])
def test_the_age_of_a_kubelet_is_that_of_its_socket_and_grows_whoever_sets_the_clock(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch, set_by: float, oldest: float
) -> None:
    wall, monotonic = time.time, time.monotonic  # noqa: TID251
    directory = KubeletDirectory(short_directory)
    assert directory.kubelet_age == 0
    make_socket(short_directory)
    monkeypatch.setattr(time, "time", lambda: wall() + set_by)
    directory.look()
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    first = directory.kubelet_age
    assert min(max(set_by, 0), uptime - 60) <= first <= min(oldest, uptime + 60)
    for jump in (-1e9, 1e9):
        monkeypatch.setattr(time, "time", lambda jump=jump: wall() + jump)
        directory.look()
        assert first <= directory.kubelet_age <= first + 60
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 100)
    directory.look()
    assert directory.kubelet_age >= first + 100
    (short_directory / "kubelet.sock").unlink()
    directory.look()
    assert directory.kubelet_age == 0


def test_a_socket_with_the_same_inode_number_is_another_one(short_directory: Path) -> None:
    """K4: the number is used again at once on many filesystems; the time of change shows.

    K5: looking again at the socket that is known changes nothing.
    """
    make_socket(short_directory)
    directory = KubeletDirectory(short_directory)
    directory.look()
    first = directory.socket.value
    directory.look()
    assert directory.socket.value is first
    # The same inode with another time of change: what a new socket on a used number looks like.
    (short_directory / "kubelet.sock").chmod(0o700)
    directory.look()
    second = directory.socket.value
    assert first is not None
    assert second is not None
    assert first[:2] == second[:2]
    assert first != second


async def test_a_directory_is_waited_for_and_followed_when_it_returns(
    short_directory: Path,
) -> None:
    path = short_directory / "kubelet" / "device-plugins"
    async with watching(short_directory) as directory:  # by inotify alone
        await sees(directory, there=False)
        make_socket(short_directory)
        await sees(directory)
    async with watching(path, poll_seconds=0.2) as directory:
        for _ in range(2):
            path.mkdir(parents=True)
            make_socket(path)
            await sees(directory)
            shutil.rmtree(path.parent)
            await sees(directory, there=False)


class Doomed(PosixPath):
    """A directory that is deleted as soon as someone has read it."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        status = super().stat(follow_symlinks=follow_symlinks)
        self.rmdir()
        return status


def test_a_directory_that_is_deleted_while_it_is_looked_at_is_waited_for(
    short_directory: Path,
) -> None:
    """Found by the soak: the daemon ended over permissions in a directory that was not there."""
    path = Doomed(short_directory / "kubelet")
    path.mkdir()
    directory = KubeletDirectory(path)
    directory.look()
    assert directory.socket.value is None


def test_a_file_that_takes_the_directories_place_later_is_waited_out(
    short_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by a new user: it ended the daemon, where a deleted directory is waited for."""
    caplog.set_level("INFO")
    path = short_directory / "kubelet"
    path.mkdir()
    make_socket(path)
    directory = KubeletDirectory(path)
    directory.look()
    shutil.rmtree(path)
    path.write_text("")
    for _ in range(2):
        directory.look()
        assert directory.socket.value is None
    path.unlink()
    path.mkdir()
    directory.look()
    make_socket(path)
    directory.look()
    assert directory.socket.value is not None
    said = f"{path} is not a directory", f"there is no {path / 'kubelet.sock'}"
    assert caplog.messages == [f"waiting for a kubelet: {reason}" for reason in said]


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


async def test_a_directory_deleted_below_its_mount_ends_the_daemon(short_directory: Path) -> None:
    """Inotify does not report it; only a restarted pod sees the new directory."""
    with (
        deleted(short_directory / "mount") as path,
        pytest.raises(KubeletError, match="deleted below its mount"),
    ):
        await KubeletDirectory(path).watch()


async def test_a_directory_that_is_just_being_deleted_is_not_gone_for_good(
    short_directory: Path,
) -> None:
    """Seen with real kubelets on a busy machine: the daemon ended, or registered twice.

    It looks again soon, though it is uncertain for long: a kubelet that came meanwhile was found
    a second later, by when each plugin had registered with it.
    """
    make_socket(short_directory)
    with deleted(short_directory / "kubelet") as path:
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


def test_a_directory_that_leaves_no_room_for_a_name_is_refused() -> None:
    KubeletDirectory(Path("/var/lib/kubelet/device-plugins"))
    with pytest.raises(UsageError, match=r"\.sock has 126 bytes, but the path of a unix socket"):
        KubeletDirectory(Path("/" + "f" * 80))


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
