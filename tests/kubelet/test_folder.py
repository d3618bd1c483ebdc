from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import asynccontextmanager
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING

import pytest

from genericdp.errors import KubeletError
from genericdp.kubelet.folder import KubeletFolder
from genericdp.observed import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def make_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "kubelet.sock"))


@asynccontextmanager
async def watching(path: Path, poll_seconds: float = 60.0) -> AsyncIterator[KubeletFolder]:
    """With a poll so slow that only inotify can have told."""
    folder = KubeletFolder(path, poll_seconds=poll_seconds)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(folder.watch())
        await asyncio.sleep(0)
        yield folder
        task.cancel()


async def appears(folder: KubeletFolder) -> bool:
    return await until(lambda: folder.socket.value is not None, folder.socket, timeout_seconds=60)


async def disappears(folder: KubeletFolder) -> bool:
    return await until(lambda: folder.socket.value is None, folder.socket, timeout_seconds=60)


async def test_a_socket_that_appears_is_told(short_folder: Path) -> None:
    async with watching(short_folder) as folder:
        assert folder.socket.value is None
        make_socket(short_folder)
        assert await appears(folder)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.touch, "{} is a file, not a socket (is this the kubelet's folder?)"),
        (Path.mkdir, "{} is a folder, not a socket (is this the kubelet's folder?)"),
        (lambda path: path.symlink_to("nowhere"), "there is no {}"),
    ],
)
async def test_what_is_no_socket_is_told_as_what_it_is(
    make: Callable[[Path], None],
    said: str,
    short_folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    make(short_folder / "kubelet.sock")
    folder = KubeletFolder(short_folder)
    folder.look()
    assert folder.socket.value is None
    told = f"waiting for a kubelet: {said.format(short_folder / 'kubelet.sock')}"
    assert caplog.messages == [told]


@pytest.mark.parametrize(("set_by", "oldest"), [(0, 60), (-3600, 60), (30, 90), (1e9, 1e9)])
def test_the_age_of_a_kubelet_is_that_of_its_socket_and_grows_whoever_sets_the_clock(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, set_by: float, oldest: float
) -> None:
    wall, monotonic = time.time, time.monotonic  # noqa: TID251
    folder = KubeletFolder(short_folder)
    assert folder.kubelet_age == 0
    make_socket(short_folder)
    monkeypatch.setattr(time, "time", lambda: wall() + set_by)
    folder.look()
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    first = folder.kubelet_age
    assert min(max(set_by, 0), uptime - 60) <= first <= min(oldest, uptime + 60)
    for jump in (-1e9, 1e9):
        monkeypatch.setattr(time, "time", lambda jump=jump: wall() + jump)
        folder.look()
        assert first <= folder.kubelet_age <= first + 60
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 100)
    folder.look()
    assert folder.kubelet_age >= first + 100
    path = short_folder / "kubelet.sock"
    path.unlink()
    folder.look()
    assert folder.kubelet_age == 0


async def test_a_socket_with_the_same_inode_number_is_another_one(short_folder: Path) -> None:
    """K4: the number is used again at once on many filesystems; the time of change tells."""
    make_socket(short_folder)
    folder = KubeletFolder(short_folder)
    folder.look()
    first = folder.socket.value
    assert first is not None
    # The same inode with another time of change: what a new socket on a used number looks like.
    (short_folder / "kubelet.sock").chmod(0o700)
    folder.look()
    second = folder.socket.value
    assert second is not None
    assert first[:2] == second[:2]
    assert first != second


async def test_an_unchanged_socket_is_no_news(short_folder: Path) -> None:
    """K5: looking again at the socket that is known changes nothing."""
    make_socket(short_folder)
    folder = KubeletFolder(short_folder)
    folder.look()
    before = folder.socket.value
    folder.look()
    assert folder.socket.value is before


async def test_a_folder_is_waited_for_and_followed_when_it_returns(short_folder: Path) -> None:
    path = short_folder / "kubelet" / "device-plugins"
    async with watching(path, poll_seconds=0.2) as folder:
        for _ in range(2):
            path.mkdir(parents=True)
            make_socket(path)
            assert await appears(folder)
            (path / "kubelet.sock").unlink()
            path.rmdir()
            path.parent.rmdir()
            assert await disappears(folder)


class Doomed(PosixPath):
    """A folder that is deleted as soon as somebody has looked at it."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        status = super().stat(follow_symlinks=follow_symlinks)
        self.rmdir()
        return status


async def test_a_folder_that_is_deleted_while_it_is_looked_at_is_waited_for(
    short_folder: Path,
) -> None:
    """Found by the soak: the daemon ended over permissions in a folder that was not there."""
    path = Doomed(short_folder / "kubelet")
    path.mkdir()
    folder = KubeletFolder(path)
    folder.look()
    assert folder.socket.value is None


async def test_a_file_that_takes_the_folders_place_later_is_waited_out(
    short_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by a new user: it ended the daemon, where a deleted folder is waited for."""
    caplog.set_level("INFO")
    path = short_folder / "kubelet"
    path.mkdir()
    make_socket(path)
    folder = KubeletFolder(path)
    folder.look()
    (path / "kubelet.sock").unlink()
    path.rmdir()
    path.write_text("")
    for _ in range(2):
        folder.look()
        assert folder.socket.value is None
    path.unlink()
    path.mkdir()
    folder.look()
    make_socket(path)
    folder.look()
    assert folder.socket.value is not None
    said = f"{path} is not a folder", f"there is no {path / 'kubelet.sock'}"
    assert caplog.messages == [f"waiting for a kubelet: {one}" for one in said]


async def test_another_reason_for_waiting_is_told(
    short_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder, path = KubeletFolder(short_folder), short_folder / "kubelet.sock"
    folder.look()
    path.touch()
    for _ in range(2):
        folder.look()
    assert [one.partition(str(path))[2] for one in caplog.messages] == [
        "",
        " is a file, not a socket (is this the kubelet's folder?)",
    ]


async def test_a_folder_deleted_below_its_mount_ends_the_daemon(short_folder: Path) -> None:
    """Inotify does not tell of it; only a restarted pod sees the new folder.

    A descriptor of a deleted folder looks just like a mount of one: it has no links.
    """
    doomed = short_folder / "doomed"
    doomed.mkdir()
    descriptor = os.open(doomed, os.O_PATH)
    try:
        doomed.rmdir()
        path = short_folder / "mount"
        path.symlink_to(f"/proc/self/fd/{descriptor}")
        with pytest.raises(KubeletError, match="deleted below its mount"):
            await KubeletFolder(path).watch()
    finally:
        os.close(descriptor)


async def test_a_folder_that_is_just_being_deleted_is_not_gone_for_good(short_folder: Path) -> None:
    """Seen with real kubelets on a busy machine: the daemon ended, or registered twice.

    It looks again soon, though it doubts for long: a kubelet that came meanwhile was found a second
    later, by when each plugin had registered with it.
    """
    doomed, path = short_folder / "doomed", short_folder / "kubelet"
    doomed.mkdir()
    make_socket(short_folder)
    descriptor = os.open(doomed, os.O_PATH)
    doomed.rmdir()
    path.symlink_to(f"/proc/self/fd/{descriptor}")
    folder = KubeletFolder(path, deletion_seconds=3600)
    watching = asyncio.get_running_loop().create_task(folder.watch())
    try:
        await asyncio.sleep(0)  # it has seen a folder without links by now
        (short_folder / "next").symlink_to(short_folder)
        (short_folder / "next").replace(path)
        assert await until(
            lambda: folder.socket.value is not None, folder.socket, timeout_seconds=30
        )
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        os.close(descriptor)


async def test_a_folder_that_somebody_holds_open_while_it_is_deleted_is_found_again(
    short_folder: Path,
) -> None:
    """inotify tells of its end when nobody holds it any more: a new kubelet was found 5 s later."""
    path = short_folder / "kubelet"
    path.mkdir()
    make_socket(path)
    folder = KubeletFolder(path, poll_seconds=0.05, watched_times=1_000_000)
    watching = asyncio.get_running_loop().create_task(folder.watch())
    held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert await appears(folder)
        (path / "kubelet.sock").unlink()
        assert await disappears(folder)
        path.rmdir()
        path.mkdir()
        make_socket(path)
        assert await appears(folder)
    finally:
        os.close(held)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
