"""Events of the kernel, which only root can make it show."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import resource
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from genericdp.host.events import Uevent, open_monitor, uevent_of

from tests.host.hearing import NULL, alone, as_root, few, hearing, tell
from tests.polling import others_run, poll_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import pyudev

    from tests.host.hearing import Heard

ZRAM = Path("/sys/class/zram-control")
LOOP_CONTROL, LOOP_ADD, LOOP_REMOVE = "/dev/loop-control", 0x4C80, 0x4C81
LOOPS = range(40, 47)
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    async with hearing() as heard:
        yield heard


@contextmanager
def zram() -> Iterator[str]:
    """A device that is plugged, and unplugged at the end."""
    number = int((ZRAM / "hot_add").read_text())
    try:
        yield f"/sys/devices/virtual/block/zram{number}"
    finally:
        (ZRAM / "hot_remove").write_text(str(number))


@pytest.fixture
def loop_control() -> Iterator[int]:
    """Return where loop devices are plugged; there are not of ours before and after."""
    descriptor = os.open(LOOP_CONTROL, os.O_RDWR)
    for when in ("before", "after"):
        for number in LOOPS:
            with suppress(OSError):  # it is not there
                fcntl.ioctl(descriptor, LOOP_REMOVE, number)
        if when == "before":
            with alone():
                yield descriptor
    os.close(descriptor)


async def test_listening_begins_with_a_look_at_everything(heard: Heard) -> None:
    """Events between the owner's first scan and now were reported to no listener."""
    assert heard.uevents.complete
    assert heard.all[0] is None


@as_root
@pytest.mark.skipif(not ZRAM.exists(), reason="this kernel has no zram to plug")
async def test_a_device_that_is_plugged_and_unplugged_is_told(heard: Heard) -> None:
    """D3: seen at once. Without ``add_reader`` it is never seen."""
    with zram() as syspath:
        await heard.until(lambda: ("add", syspath) in heard.pairs(syspath))
    await heard.until(lambda: ("remove", syspath) in heard.pairs(syspath))


@as_root
@pytest.mark.skipif(not Path(LOOP_CONTROL).exists(), reason="this kernel has no loop devices")
async def test_each_of_a_burst_of_seven_is_told_once(loop_control: int, heard: Heard) -> None:
    syspaths = [f"/sys/devices/virtual/block/loop{number}" for number in LOOPS]

    def told_as(action: str) -> list[str]:
        return [syspath for reported, syspath in heard.pairs(*syspaths) if reported == action]

    for request, action in ((LOOP_ADD, "add"), (LOOP_REMOVE, "remove")):
        for number in LOOPS:
            fcntl.ioctl(loop_control, request, number)
        await heard.until(lambda: len(told_as(action)) == len(LOOPS))  # noqa: B023
        assert told_as(action) == syspaths


@as_root
async def test_what_is_no_device_is_not_told(heard: Heard) -> None:
    drivers = list(Path("/sys/bus").glob("*/drivers/*/uevent"))
    tell(device=str(drivers[0].parent))
    tell()
    await heard.until(lambda: bool(heard.pairs(NULL)))
    values = [event.syspath for event in heard.all if event is not None]
    assert not [syspath for syspath in values if not syspath.startswith("/sys/devices/")]


@as_root
async def test_an_overrun_calls_for_one_look_at_everything_and_is_over() -> None:
    async with hearing(few) as heard:
        for _ in range(200):
            tell()
        await heard.until(lambda: heard.all.count(None) == 2)
        assert len(heard.all) < 200
        tell()
        await heard.until(lambda: heard.all[-1] is not None)
        assert heard.pairs(NULL)[-1] == ("change", NULL)
        assert heard.uevents.complete


@as_root
async def test_nothing_is_told_after_the_end() -> None:
    async with hearing() as heard:
        pass
    before = list(heard.all)
    async with hearing() as other:
        tell()
        await other.until(lambda: bool(other.pairs(NULL)))
    assert heard.all == before
    assert not heard.uevents.complete


@as_root
async def test_a_flood_leaves_the_loop_its_turns(heard: Heard) -> None:
    """Taken in one go, thousands of events would hold up an allocation for long."""
    for _ in range(1000):
        tell()
    most, before = 0, 0
    async with asyncio.timeout(60):
        while len(heard.pairs(NULL)) < 1000:
            await others_run()
            most, before = max(most, len(heard.all) - before), len(heard.all)
    assert 0 < most <= 256


@contextmanager
def without_descriptors() -> Iterator[None]:
    """Have this process at its limit: nothing more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_a_monitor_it_is_said_once_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    tries = 0

    def counted() -> pyudev.Monitor:
        nonlocal tries
        tries += 1
        return open_monitor()

    with ExitStack() as shortage:
        shortage.enter_context(without_descriptors())
        async with hearing(counted) as heard:
            await poll_until(lambda: tries > 2)
            assert not heard.uevents.complete
            shortage.close()
            await heard.until(lambda: heard.uevents.complete)
            assert heard.all == [None, None]
    first, last = caplog.messages
    assert first.startswith("kernel events are unavailable (")
    assert first.endswith("): polling instead")
    assert last == "kernel events are available again"


def test_a_move_tells_both_places() -> None:
    moved = SimpleNamespace(
        sys_path="/sys/devices/pci0/net/ens1",
        action="move",
        properties={"DEVPATH_OLD": "/devices/pci0/net/eth0"},
    )
    assert uevent_of(moved) == Uevent(
        action="move",
        syspath="/sys/devices/pci0/net/ens1",
        former_syspath="/sys/devices/pci0/net/eth0",
    )


def test_an_event_tells_the_subsystem_and_the_number() -> None:
    properties = {"SUBSYSTEM": "tty", "MAJOR": "188", "MINOR": "7"}
    tty = SimpleNamespace(sys_path="/sys/devices/tty7", action="add", properties=properties)
    found = uevent_of(tty)
    assert (found.subsystem, found.number) == ("tty", (188, 7))


def test_pyudev_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, genericdp.host.events; sys.exit('pyudev' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
