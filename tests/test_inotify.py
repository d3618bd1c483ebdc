"""Folders that come, go and are replaced: real inotify only."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from genericdp.inotify import FolderWatch, open_inotify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from inotify_simple import INotify


class Changes:
    """A watch that counts."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()
        self.watch = FolderWatch(self._changed, what="test folders")

    def _changed(self) -> None:
        self.count += 1
        self._event.set()

    def set(self, *folders: Path) -> bool:
        return self.watch.set_folders([str(folder) for folder in folders])

    async def next(self) -> None:
        async with asyncio.timeout(5):
            await self._event.wait()
        self._event.clear()

    async def settled(self) -> int:
        """What has been told by now: inotify queues an event before the call returns."""
        for _ in range(3):
            await asyncio.sleep(0)
        self._event.clear()
        return self.count


@pytest.fixture
async def changes() -> AsyncIterator[Changes]:
    changes = Changes()
    yield changes
    changes.watch.close()


async def test_a_file_that_comes_goes_or_changes_its_mode_is_told(
    changes: Changes, tmp_path: Path
) -> None:
    assert changes.set(tmp_path) is True
    file = tmp_path / "file"
    for change in (
        file.touch,
        lambda: file.chmod(0o600),
        lambda: file.rename(tmp_path / "other"),
        (tmp_path / "other").unlink,
        lambda: (tmp_path / "link").symlink_to("x"),
    ):
        change()
        await changes.next()


async def test_what_is_written_to_a_file_is_not_told(changes: Changes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    changes.set(tmp_path)
    file.write_text("a device that is written to must not wake us")
    file.read_text()
    assert await changes.settled() == 0


async def test_a_folder_is_fresh_only_the_first_time(changes: Changes, tmp_path: Path) -> None:
    assert [changes.set(tmp_path), changes.set(tmp_path)] == [True, False]
    (tmp_path / "below").mkdir()
    assert changes.set(tmp_path, tmp_path / "below") is True
    assert changes.set(tmp_path / "below") is False


async def test_to_stop_watching_a_folder_tells_nothing(changes: Changes, tmp_path: Path) -> None:
    """The kernel tells of each removed watch, which would be a pass for nothing."""
    (tmp_path / "below").mkdir()
    changes.set(tmp_path, tmp_path / "below")
    changes.set(tmp_path)
    assert await changes.settled() == 0
    (tmp_path / "below" / "file").touch()
    assert await changes.settled() == 0
    assert changes.set(tmp_path, tmp_path / "below") is True


async def test_a_folder_that_does_not_exist_yet_is_passed_over(
    changes: Changes, tmp_path: Path
) -> None:
    folder = tmp_path / "later"
    assert changes.set(tmp_path, folder) is True
    assert changes.watch.complete
    folder.mkdir()
    await changes.next()
    assert changes.set(tmp_path, folder) is True
    (folder / "file").touch()
    await changes.next()


async def test_a_folder_that_is_gone_before_its_watch_calls_for_one_more_look(
    changes: Changes, tmp_path: Path
) -> None:
    """No event tells of it; that it is still missing later is no news."""
    assert changes.set(tmp_path / "gone") is True
    assert changes.set(tmp_path / "gone") is False
    (tmp_path / "gone").mkdir()
    assert changes.set(tmp_path / "gone") is True


async def test_a_folder_that_vanishes_and_returns_is_fresh_again(
    changes: Changes, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    changes.set(folder)
    folder.rmdir()
    await changes.next()
    folder.mkdir()
    assert changes.set(folder) is True
    await changes.settled()
    (folder / "file").touch()
    await changes.next()


async def test_a_folder_that_is_replaced_by_rename_is_followed(
    changes: Changes, tmp_path: Path
) -> None:
    folder, old = tmp_path / "folder", tmp_path / "old"
    folder.mkdir()
    changes.set(folder)
    folder.rename(old)
    folder.mkdir()
    await changes.next()
    assert changes.set(folder) is True
    count = await changes.settled()
    (old / "file").touch()
    assert await changes.settled() == count, "the old one is nothing to us any more"
    (folder / "file").touch()
    await changes.next()


async def test_a_folder_replaced_between_two_passes_is_fresh_without_an_event(
    changes: Changes, tmp_path: Path
) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    changes.set(folder)
    shutil.rmtree(folder)
    other.rename(folder)
    assert changes.set(folder) is True, "asked before the loop could read the event"


async def test_two_thousand_folders_are_watched(changes: Changes, tmp_path: Path) -> None:
    folders = [tmp_path / str(i) for i in range(2000)]
    for folder in folders:
        folder.mkdir()
    assert changes.set(*folders) is True
    assert changes.watch.complete
    for i in (0, 1999):
        (folders[i] / "file").touch()
        await changes.next()
    assert changes.set(*folders[:1000]) is False
    assert await changes.settled() == 2


async def test_more_events_than_the_kernel_keeps_are_one_call_to_look_again(
    changes: Changes, tmp_path: Path
) -> None:
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        most = int(file.read())
    if most > 70_000:
        pytest.skip(f"the queue holds {most} events here")
    below = tmp_path / "below"
    below.mkdir()
    changes.set(tmp_path, below)
    path = str(tmp_path / "file")
    for _ in range(most // 2 + 1):
        os.mkdir(path)
        os.rmdir(path)
    below.rmdir()  # this is lost, and so is that the kernel has dropped the watch
    await changes.next()
    assert await changes.settled() == 1
    below.mkdir()
    assert changes.set(tmp_path, below) is True
    await changes.settled()
    (below / "file").touch()
    await changes.next()


def _too_many() -> INotify:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_without_inotify_it_says_so_once_and_asks_to_poll(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = FolderWatch(lambda: None, what="device folders", open_inotify=_too_many)
    assert watch.complete is False
    for _ in range(3):
        assert watch.set_folders([str(tmp_path)]) is False
    assert watch.complete is False
    watch.close()
    assert [record.getMessage() for record in caplog.records] == [
        "device folders: inotify cannot be used (Too many open files): polling instead;"
        " raise fs.inotify.max_user_instances and max_user_watches"
    ]
    assert caplog.records[0].levelno == logging.WARNING


async def test_a_folder_that_cannot_be_watched_is_polled_and_the_others_are_watched(
    changes: Changes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for _ in range(2):
        changes.set(loop, tmp_path)
        assert changes.watch.complete is False
    assert [record.getMessage() for record in caplog.records] == [
        "test folders: inotify cannot be used (Too many levels of symbolic links): polling instead"
    ]
    (tmp_path / "file").touch()
    await changes.next()
    changes.set(tmp_path)
    assert changes.watch.complete is True


async def test_after_the_end_nothing_is_told(tmp_path: Path) -> None:
    changes = Changes()
    changes.set(tmp_path)
    (tmp_path / "file").touch()
    changes.watch.close()
    changes.watch.close()
    assert changes.set(tmp_path) is False
    assert await changes.settled() == 0


async def test_the_path_of_each_entry_is_told_before_the_change(tmp_path: Path) -> None:
    """A folder that is watched under two names tells both; its own end may be anything."""
    told: list[str | None] = []
    changed = asyncio.Event()
    watch = FolderWatch(changed.set, what="test folders", entry=told.append)
    try:
        folder, link = tmp_path / "folder", tmp_path / "link"
        folder.mkdir()
        link.symlink_to(folder)
        watch.set_folders([str(folder), str(link)])
        (folder / "new").touch()
        async with asyncio.timeout(5):
            await changed.wait()
        assert set(told) == {f"{folder}/new", f"{link}/new"}
        told.clear()
        changed.clear()
        (folder / "new").unlink()
        folder.rmdir()
        async with asyncio.timeout(5):
            await changed.wait()
        assert None in told
    finally:
        watch.close()


async def test_what_all_lack_is_said_once_and_when_it_is_there_again_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each tries again by itself."""
    caplog.set_level("INFO")
    left = [3]  # attempts that fail

    def scarce() -> INotify:
        left[0] -= 1
        return _too_many() if left[0] >= 0 else open_inotify()

    changed = asyncio.Event()
    watches = [FolderWatch(changed.set, what=f"folder {i}", open_inotify=scarce) for i in range(2)]
    assert [one.set_folders([str(tmp_path)]) for one in watches] == [False, True]
    assert [one.complete for one in watches] == [False, True]
    assert watches[0].set_folders([str(tmp_path)]) is True
    (tmp_path / "file").touch()
    async with asyncio.timeout(5):
        await changed.wait()
    for one in watches:
        one.close()
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "folder 0: inotify cannot be used",
        "inotify can be used again: nothing is polled any longer",
    ]
