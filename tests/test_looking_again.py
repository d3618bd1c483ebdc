"""Time alone changes nothing on the host: only what is due is looked at again."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inotify_simple import INotify, flags

from genericdp.host.root import Root
from tests.decisions import Discoverer
from tests.devices.making import resource as of_globs
from tests.fixtures.make_tree import Tree
from tests.polling import poll_until
from tests.test_unreadable import forbidden
from tests.world import World, resource, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from genericdp.devices.devicelist import DeviceList


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Not below /dev/shm, as elsewhere: tests beside this one walk through the machine's /dev."""
    with tempfile.TemporaryDirectory(prefix="g", dir="/var/tmp") as place:
        world = World(Path(place))
        async with world.kubelet:
            yield world


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Counting:
    """Makes roots that record which folders were listed."""

    def __init__(self) -> None:
        self.looked: list[str] = []

    def of(self, folder: Path) -> Root:
        looked = self.looked

        class Counted(Root):
            def entries(self, path: str) -> list[str]:
                looked.append(path)
                return super().entries(path)

        return Counted(folder)


async def test_what_cannot_be_read_is_looked_at_alone_and_ever_more_rarely(
    short_folder: Path,
) -> None:
    tree, clock, counting = Tree(short_folder), Clock(), Counting()
    tree.node("serial/s0", "188:0")
    tree.node("null", "1:3")
    wanted = (of_globs("serial", "/dev/serial/*"), of_globs("other", "/dev/null*"))
    discoverer = Discoverer(counting.of(tree.folder), look_again=lambda: None, now=clock)
    offers: dict[str, DeviceList] = (await discoverer.discover(wanted, {})).lists
    waits = []
    with forbidden(short_folder / "dev/serial"):
        found = await discoverer.discover(wanted, offers)
        for _ in range(6):
            assert found.due is not None
            waits.append(found.due - clock.time)
            clock.time = found.due
            counting.looked.clear()
            found = await discoverer.discover(wanted, found.lists, full=False)
            assert counting.looked == ["/dev/serial"]
            assert found.lists == offers
    assert waits == [2, 4, 8, 16, 30, 30]
    found = await discoverer.discover(wanted, offers, full=False)
    assert found.due is None, "it can be read again"
    with forbidden(short_folder / "dev/serial"):
        found = await discoverer.discover(wanted, offers)
    assert found.due == clock.time + 2, "the next trouble may be over soon"


async def test_events_meanwhile_do_not_put_off_the_next_look(short_folder: Path) -> None:
    tree, clock = Tree(short_folder), Clock()
    tree.node("serial/s0", "188:0")
    wanted = (of_globs("serial", "/dev/serial/*"), of_globs("other", "/dev/null*"))
    discoverer = Discoverer(tree.root, look_again=lambda: None, now=clock)
    found = await discoverer.discover(wanted, {})
    with forbidden(short_folder / "dev/serial"):
        first = await discoverer.discover(wanted, found.lists)
        clock.time += 1.5
        discoverer.mark_file("/dev/null")
        second = await discoverer.discover(wanted, found.lists, full=False)
    assert first.due == second.due


@contextmanager
def counting_opens(folder: Path) -> Iterator[Callable[[], int]]:
    """Return how often the folder was opened since the last call."""
    with INotify(nonblocking=True) as watch:
        watch.add_watch(os.fspath(folder), flags.OPEN | flags.ONLYDIR)
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
        with counting_opens(world.host.folder / "dev/other") as opens:
            world.host.unplug("ttyUSB1")
            await kubelet.wait_for(lambda: kubelet.devices(name).get("ttyUSB1") == "Unhealthy")
            assert opens() > 0, "what comes by inotify may be anything"
            # What came meanwhile may call for one more look, on a busy machine some time later.
            with suppress(TimeoutError):
                while True:
                    await poll_until(opens, seconds=2)
            await kubelet.wait_for(lambda: "ttyUSB1" not in kubelet.devices(name))
            assert opens() == 0
