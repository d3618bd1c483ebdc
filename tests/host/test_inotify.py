"""Directories that come, go and are replaced: real inotify only."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host.events import CONTENTS, ENTRIES, RECORDS, DirectoryWatch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.polling import others_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

MAX_QUEUED = Path("/proc/sys/fs/inotify/max_queued_events")


class Changes:
    """A watch whose calls are recorded."""

    def __init__(self) -> None:
        self.reported: list[tuple[Path, str | None]] = []
        self._event = asyncio.Event()
        self.watch = DirectoryWatch(self._changed, what="test directories")

    def _changed(self, directory: str, name: str | None) -> None:
        self.reported.append((Path(directory), name))
        self._event.set()

    async def set(self, *directories: Path, mask: int = ENTRIES) -> set[Path]:
        """Watch these directories, and return which have to be read again."""
        return set(
            map(
                Path,
                await self.watch.set_directories(
                    {str(directory): mask for directory in directories}
                ),
            )
        )

    async def next(self) -> list[tuple[Path, str | None]]:
        """Wait until something has been reported, and return it."""
        async with asyncio.timeout(60):
            await self._event.wait()
        return await self.settled()

    async def settled(self) -> list[tuple[Path, str | None]]:
        """Return what has been reported by now: inotify queues an event before the call returns."""
        for _ in range(3):
            await others_run()
        self._event.clear()
        reported, self.reported = self.reported, []
        return reported


@pytest.fixture
async def changes() -> AsyncIterator[Changes]:
    changes = Changes()
    yield changes
    changes.watch.close()


async def test_an_entry_that_comes_goes_or_changes_its_mode_is_told(
    changes: Changes, tmp_path: Path
) -> None:
    assert await changes.set(tmp_path) == {tmp_path}
    file = tmp_path / "file"
    for change, name in (
        (file.touch, "file"),
        (lambda: file.chmod(0o600), "file"),
        (lambda: file.rename(tmp_path / "other"), "other"),
        ((tmp_path / "other").unlink, "other"),
        (lambda: (tmp_path / "link").symlink_to("x"), "link"),
    ):
        change()
        assert (tmp_path, name) in await changes.next()


async def test_what_is_written_is_told_only_where_that_is_asked_for(
    changes: Changes, tmp_path: Path
) -> None:
    """A device that is written to must not wake the daemon, nor /dev/null one whose config lies
    below /dev.
    """
    file = tmp_path / "file"
    file.touch()
    await changes.set(tmp_path)
    file.write_text("x")
    file.read_text()
    assert await changes.settled() == []
    await changes.set(tmp_path, mask=CONTENTS)
    file.write_text("y")
    assert await changes.settled() == [(tmp_path, "file")]


async def test_a_record_is_told_only_when_it_is_complete(changes: Changes, tmp_path: Path) -> None:
    """With CREATE in the mask its empty file would be read as a device without properties."""
    await changes.set(tmp_path, mask=RECORDS)
    with (tmp_path / "c188:0").open("w") as file:
        assert await changes.settled() == []
        file.write("E:ID_MODEL=x\n")
    assert await changes.settled() == [(tmp_path, "c188:0")]


async def test_a_directory_that_two_paths_lead_to_tells_both_whatever_they_want(
    changes: Changes, tmp_path: Path
) -> None:
    directory, link = tmp_path / "directory", tmp_path / "link"
    directory.mkdir()
    link.symlink_to(directory)
    await changes.watch.set_directories({str(directory): CONTENTS, str(link): ENTRIES})
    (directory / "new").touch()
    await changes.settled()
    (directory / "new").write_text("x")
    assert set(await changes.settled()) == {(directory, "new"), (link, "new")}


async def test_a_directory_that_is_watched_no_longer_tells_nothing(
    changes: Changes, tmp_path: Path
) -> None:
    """The kernel reports each removed watch, which would be a pass for nothing."""
    (tmp_path / "below").mkdir()
    await changes.set(tmp_path, tmp_path / "below")
    await changes.set(tmp_path)
    assert await changes.settled() == []
    (tmp_path / "below" / "file").touch()
    assert await changes.settled() == []
    assert await changes.set(tmp_path, tmp_path / "below") == {tmp_path / "below"}


@pytest.mark.parametrize("there", ["", "run/udev"])
@pytest.mark.parametrize("relative", [False, True])
async def test_the_way_to_a_missing_directory_is_awaited_at_its_deepest_ancestor(
    changes: Changes,
    there: str,
    relative: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = Path("run/udev/data") if relative else tmp_path / "run/udev/data"
    (tmp_path / there).mkdir(exist_ok=True, parents=True)
    assert await changes.set(directory) == {directory}
    assert changes.watch.complete
    (tmp_path / there / "other").mkdir()
    assert await changes.settled() == [], "what else appears there is nothing to us"
    assert await changes.set(directory) == set(), "that it is still missing is not news"
    directory.mkdir(parents=True)
    assert await changes.settled() == [(directory, None)]
    assert await changes.set(directory) == {directory}


async def test_a_file_in_place_of_a_directory_is_waited_out(
    changes: Changes, tmp_path: Path
) -> None:
    directory = tmp_path / "directory"
    directory.touch()
    await changes.set(directory)
    directory.unlink()
    assert await changes.next() == [(directory, None)]


async def test_only_one_watch_is_kept_for_a_directory(changes: Changes, tmp_path: Path) -> None:
    """Watches that pile up on what was moved away would use up the user's share of them."""
    directory = tmp_path / "run/udev/data"
    before = watches()
    await changes.set(directory)
    assert watches() == before + 1
    directory.mkdir(parents=True)
    await changes.set(directory)
    assert watches() == before + 1
    directory.rename(tmp_path / "away")
    await changes.set(directory)
    assert watches() == before + 1


def watches() -> int:
    """Return how many inotify watches this process holds."""
    descriptors = Path("/proc/self/fdinfo").iterdir()
    return sum(
        descriptor.read_text().count("inotify wd:")
        for descriptor in descriptors
        if descriptor.exists()
    )


def _move_away(path: Path) -> None:
    if path.exists():
        path.rename(path.with_name(f"{path.name}-{len(list(path.parent.iterdir()))}"))


STEPS: dict[str, Callable[[Path], object]] = {
    "make run": lambda root: (root / "run").mkdir(exist_ok=True),
    "make udev": lambda root: (root / "run/udev").mkdir(exist_ok=True, parents=True),
    "make data": lambda root: (root / "run/udev/data").mkdir(exist_ok=True, parents=True),
    "remove run": lambda root: shutil.rmtree(root / "run", ignore_errors=True),
    "remove udev": lambda root: shutil.rmtree(root / "run/udev", ignore_errors=True),
    "remove data": lambda root: shutil.rmtree(root / "run/udev/data", ignore_errors=True),
    "move data": lambda root: _move_away(root / "run/udev/data"),
}


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.booleans()), max_size=8))
@example([("make data", True), ("move data", True), ("remove udev", False)])
def test_whatever_became_of_the_directories_the_next_entry_is_told(
    steps: list[tuple[str, bool]],
) -> None:
    """As long as the owner sets the directories again whenever something is reported about them."""

    async def run(root: Path) -> None:
        directory, changes = root / "run/udev/data", Changes()
        await changes.set(directory)

        async def follow() -> None:
            while (directory, None) in await changes.settled():
                await changes.set(directory)

        for step, is_followed in steps:
            STEPS[step](root)
            if is_followed:
                await follow()
        directory.mkdir(exist_ok=True, parents=True)
        await follow()
        (directory / "c188:0").touch()
        assert (directory, "c188:0") in await changes.settled()
        changes.watch.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory)))


@pytest.mark.skipif(int(MAX_QUEUED.read_text()) > 70_000, reason="the queue here is very long")
async def test_more_events_than_the_kernel_keeps_are_a_call_to_look_again(
    changes: Changes, tmp_path: Path
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    await changes.set(tmp_path, below)
    path = str(tmp_path / "file")
    for _ in range(int(MAX_QUEUED.read_text()) // 2 + 1):
        os.mkdir(path)
        os.rmdir(path)
    below.rmdir()  # this is lost, and so is that the kernel has dropped the watch
    reported: set[tuple[Path, str | None]] = set()
    while (below, None) not in reported:
        reported |= set(await changes.next())
    assert reported == {(tmp_path, "file"), (tmp_path, None), (below, None)}
    below.mkdir()
    await changes.settled()
    assert await changes.set(tmp_path, below) == {below}
    (below / "file").touch()
    assert (below, "file") in await changes.next()


async def test_what_cannot_be_watched_is_polled_and_said_once(
    changes: Changes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are watched, and that nothing is polled any longer is said once, too."""
    caplog.set_level(logging.INFO)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for _ in range(2):
        await changes.set(loop, tmp_path)
        assert changes.watch.complete is False
    (tmp_path / "file").touch()
    assert (tmp_path, "file") in await changes.next()
    loop.unlink()
    assert await changes.set(loop, tmp_path) == {loop}
    await changes.set(loop, tmp_path)
    assert changes.watch.complete is True
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "test directories cannot be watched (Too many levels of symbolic links):"
         " polled instead"),
        (logging.INFO, "test directories can be watched again"),
    ]  # fmt: skip


async def test_after_the_end_nothing_is_told(tmp_path: Path) -> None:
    changes = Changes()
    await changes.set(tmp_path)
    (tmp_path / "file").touch()
    changes.watch.close()
    changes.watch.close()
    assert await changes.settled() == []
