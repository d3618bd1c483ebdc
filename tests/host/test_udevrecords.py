"""Records of the udev database that are written as udev does it: real inotify only."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from genericdp.host.root import Root
from genericdp.host.udevrecords import UdevRecords, udevd_runs
from genericdp.inotify import open_inotify
from tests.budget import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from inotify_simple import INotify

MOST_QUEUED = Path("/proc/sys/fs/inotify/max_queued_events")


class Machine:
    """A root with a udev database, and what is told of it."""

    def __init__(self, root: Path) -> None:
        self.run = root / "run"
        self.folder = root / "run/udev/data"
        self.told: list[str | None] = []
        self._event = asyncio.Event()
        self.records = UdevRecords(self._recorded, Root(root))

    def _recorded(self, name: str | None) -> None:
        self.told.append(name)
        self._event.set()

    def write(self, name: str) -> None:
        """Write a record as udev does: under a hidden name first."""
        hidden = self.folder / f".#{name}Xy12z"
        hidden.write_text("E:ID_MODEL=x\n")
        hidden.rename(self.folder / name)

    async def until(self, count: int) -> list[str | None]:
        async with asyncio.timeout(5):
            while len(self.told) < count:
                self._event.clear()
                await self._event.wait()
        return self.told

    async def settled(self) -> list[str | None]:
        """What has been told by now: inotify queues an event before the call returns."""
        for _ in range(3):
            await asyncio.sleep(0)
        return self.told


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    (tmp_path / "run/udev/data").mkdir(parents=True)
    return tmp_path


async def test_each_record_is_told_once_by_its_name(root: Path) -> None:
    machine = Machine(root)
    for name in ("c188:0", "b7:0", "n3", "+usb:1-1"):
        machine.write(name)
    assert await machine.until(4) == ["c188:0", "b7:0", "n3", "+usb:1-1"]
    machine.write("c188:0")
    assert (await machine.until(5))[4:] == ["c188:0"]
    machine.records.close()


async def test_a_record_that_is_removed_is_told(root: Path) -> None:
    machine = Machine(root)
    machine.write("c188:0")
    await machine.until(1)
    (machine.folder / "c188:0").unlink()
    assert await machine.until(2) == ["c188:0", "c188:0"]
    machine.records.close()


async def test_a_record_is_told_only_when_it_is_complete(root: Path) -> None:
    """With CREATE in the mask its empty file would be read as a device without properties."""
    machine = Machine(root)
    with (machine.folder / "c188:0").open("w") as file:
        assert await machine.settled() == []
        file.write("E:ID_MODEL=x\n")
    assert await machine.until(1) == ["c188:0"]
    machine.records.close()


async def test_what_was_there_before_and_hidden_files_are_not_told(root: Path) -> None:
    (root / "run/udev/data/c1:3").touch()
    machine = Machine(root)
    (machine.folder / ".#c1:3abc").write_text("half")
    assert await machine.settled() == []
    machine.records.close()


@pytest.mark.parametrize("there", ["", "run", "run/udev"])
async def test_a_udevd_that_starts_later_is_waited_for(there: str, tmp_path: Path) -> None:
    (tmp_path / there).mkdir(exist_ok=True, parents=True)
    machine = Machine(tmp_path)
    assert machine.records.complete
    machine.folder.mkdir(parents=True)
    assert await machine.until(1) == [None]
    machine.write("c188:0")
    assert await machine.until(2) == [None, "c188:0"]
    machine.records.close()


async def test_only_one_folder_is_watched_at_a_time(tmp_path: Path) -> None:
    """Watches that pile up on what was moved away would use up the user's share of them."""
    machine = Machine(tmp_path)
    assert watches() == 1
    machine.folder.mkdir(parents=True)
    await machine.until(1)
    assert watches() == 1
    machine.folder.rename(machine.run / "away")
    await machine.until(2)
    assert watches() == 1
    machine.records.close()


def watches() -> int:
    """How many inotify watches this process holds."""
    descriptors = Path("/proc/self/fdinfo").iterdir()
    return sum(one.read_text().count("inotify wd:") for one in descriptors if one.exists())


async def test_a_database_that_is_moved_away_is_replaced(root: Path) -> None:
    machine = Machine(root)
    machine.folder.rename(machine.run / "away")
    assert await machine.until(1) == [None]
    machine.folder.mkdir()
    await machine.until(2)
    machine.write("c188:0")
    assert await machine.until(3) == [None, None, "c188:0"]
    machine.records.close()


async def test_other_entries_above_the_folder_wake_nobody(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/other").mkdir()
    (tmp_path / "run/data").mkdir()
    assert await machine.settled() == []
    machine.records.close()


async def test_a_database_that_vanishes_and_returns_is_looked_at_anew(root: Path) -> None:
    machine = Machine(root)
    shutil.rmtree(machine.run)
    assert await machine.until(1) == [None]
    machine.folder.mkdir(parents=True)
    await machine.until(2)
    machine.write("c188:0")
    assert await machine.until(3) == [None, None, "c188:0"]
    machine.records.close()


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _move_away(path: Path) -> None:
    if path.exists():
        path.rename(path.with_name(f"{path.name}-{len(list(path.parent.iterdir()))}"))


STEPS: dict[str, Callable[[Path], object]] = {
    "make run": lambda root: (root / "run").mkdir(exist_ok=True),
    "make udev": lambda root: (root / "run/udev").mkdir(exist_ok=True, parents=True),
    "make data": lambda root: (root / "run/udev/data").mkdir(exist_ok=True, parents=True),
    "remove run": lambda root: _remove(root / "run"),
    "remove udev": lambda root: _remove(root / "run/udev"),
    "remove data": lambda root: _remove(root / "run/udev/data"),
    "move data": lambda root: _move_away(root / "run/udev/data"),
}


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.booleans()), max_size=8))
@example([("make data", True), ("move data", True), ("remove udev", False)])
def test_whatever_became_of_the_folders_the_next_record_is_told(
    steps: list[tuple[str, bool]],
) -> None:
    async def run(root: Path) -> None:
        machine = Machine(root)
        for step, looked in steps:
            STEPS[step](root)
            if looked:
                await machine.settled()
        machine.folder.mkdir(exist_ok=True, parents=True)
        await machine.settled()
        machine.told.clear()
        machine.write("c188:0")
        assert await machine.until(1) == ["c188:0"]
        machine.records.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


@pytest.mark.skipif(int(MOST_QUEUED.read_text()) > 50_000, reason="the queue here is very long")
async def test_an_overrun_calls_for_one_look_at_everything_and_is_over(root: Path) -> None:
    machine = Machine(root)
    paths = [machine.folder / "c1:1", machine.folder / "c1:2"]  # equal neighbours are merged
    for i in range(int(MOST_QUEUED.read_text()) + 10):
        paths[i % 2].open("w").close()
    assert await machine.until(1) == [None]
    machine.write("c188:0")
    assert await machine.until(2) == [None, "c188:0"]
    machine.records.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
async def test_no_inotify_is_said_once_and_leaves_polling_to_the_owner(
    code: int, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> INotify:
        raise OSError(code, "no more")

    records = UdevRecords(lambda _: None, Root(root), open_inotify=fail)
    assert not records.complete
    records.close()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            "/run/udev/data: inotify cannot be used (no more): polling instead;"
            " raise fs.inotify.max_user_instances and max_user_watches",
        )
    ]


async def test_inotify_that_can_be_had_later_is_used_then(root: Path) -> None:
    attempts: list[OSError | None] = [OSError(errno.EMFILE, "no more"), None]
    told: list[str | None] = []
    anything = asyncio.Event()

    def scarce() -> INotify:
        if error := attempts.pop(0):
            raise error
        return open_inotify()

    def recorded(name: str | None) -> None:
        told.append(name)
        anything.set()

    records = UdevRecords(recorded, Root(root), open_inotify=scarce, again_after_seconds=0.01)
    assert not records.complete
    async with asyncio.timeout(5):
        await anything.wait()
    assert (records.complete, told) == (True, [None])
    records.close()


@pytest.fixture
def control(short_folder: Path) -> Iterator[Path]:
    path = short_folder / "run/udev/control"
    path.parent.mkdir(parents=True)
    yield short_folder
    path.unlink(missing_ok=True)


def test_udevd_runs_where_its_socket_is(control: Path) -> None:
    assert not udevd_runs(Root(control))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(control / "run/udev/control"))
        assert udevd_runs(Root(control))
