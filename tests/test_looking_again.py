"""Time alone changes nothing on the host: only what is due is read again."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host.root import Root
from inotify_simple import INotify, flags

from tests.decisions import Discoverer
from tests.devices.making import resource as of_globs
from tests.fixtures.make_tree import Tree
from tests.polling import poll_until
from tests.test_unreadable import forbidden
from tests.world import World, resource, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from genericdp.devices.decide import DeviceLists


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Not below /dev/shm, as elsewhere: other tests walk through the machine's /dev."""
    with tempfile.TemporaryDirectory(prefix="g", dir="/var/tmp") as place:
        world = World(Path(place))
        async with world.kubelet:
            yield world


class Looks:
    """Scans two globs, on a clock of their own; ``listed``: which directories were listed."""

    WANTED = (of_globs("serial", "/dev/serial/*"), of_globs("other", "/dev/null*"))

    def __init__(self, directory: Path) -> None:
        tree = Tree(directory)
        tree.node("serial/s0", "188:0")
        tree.node("null", "1:3")
        self.now = 1000.0
        self.listed = listed = list[str]()

        class Counted(Root):
            def entries(self, path: str) -> list[str]:
                listed.append(path)
                return super().entries(path)

        self.reader = Discoverer(Counted(directory), now=lambda: self.now)
        self.lists: DeviceLists = {}

    async def look(self, *, full: bool = True) -> float | None:
        """Look and return when to look again."""
        self.listed.clear()
        found = await self.reader.discover(self.WANTED, self.lists, full=full)
        self.lists = found.lists
        return found.due


async def test_what_cannot_be_read_is_looked_at_alone_and_ever_more_rarely(
    short_directory: Path,
) -> None:
    looks, waits = Looks(short_directory), []
    assert await looks.look() is None
    before = looks.lists
    with forbidden(short_directory / "dev/serial"):
        due = await looks.look()
        for _ in range(6):
            assert due is not None
            waits.append(due - looks.now)
            looks.now = due
            due = await looks.look(full=False)
            assert (looks.listed, looks.lists) == (["/dev/serial"], before)
    assert waits == [2, 4, 8, 16, 30, 30]
    assert await looks.look(full=False) is None, "it can be read again"
    with forbidden(short_directory / "dev/serial"):
        first = await looks.look()
        assert first == looks.now + 2, "the next trouble may be over soon"
        looks.now += 1.5
        looks.reader.mark_file("/dev/null")
        assert await looks.look(full=False) == first, "an event does not put it off"


@contextmanager
def counting_opens(directory: Path) -> Iterator[Callable[[], int]]:
    """Return how often the directory was opened since the last call."""
    with INotify(nonblocking=True) as watch:
        watch.add_watch(os.fspath(directory), flags.OPEN | flags.ONLYDIR)
        yield lambda: sum(not event.name for event in watch.read(timeout=0))


async def test_forgetting_a_device_is_no_full_look(world: World) -> None:
    kubelet = world.kubelet
    name = "example.com/serial"
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    world.host.plug("other/tty7")
    other = resource("example.com/other", "/dev/other/*")
    async with world.serving(serial(name, forgetAfterSeconds=5), other):
        await world.listed(name, "ttyUSB0", "ttyUSB1")
        await world.listed("example.com/other", "other_tty7")
        with counting_opens(world.host.directory / "dev/other") as opens:
            world.host.unplug("ttyUSB1")
            await kubelet.wait_for(lambda: kubelet.devices(name).get("ttyUSB1") == "Unhealthy")
            assert opens() > 0, "what comes by inotify may be anything"
            # What came meanwhile may call for one more look, on a busy machine some time later.
            with suppress(TimeoutError):
                while True:
                    await poll_until(opens, seconds=2)
            await kubelet.wait_for(lambda: "ttyUSB1" not in kubelet.devices(name))
            assert opens() == 0
