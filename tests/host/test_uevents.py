"""Events of the kernel: its own where the test is root, scripted ones where it is not."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericdp.host.uevents import Uevent
from tests.budget import examples
from tests.host.hearing import NULL, Heard, as_root, few, tell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from genericdp.host.uevents import Monitor, Told

ZRAM = Path("/sys/class/zram-control")
LOOP_CONTROL, LOOP_ADD, LOOP_REMOVE = "/dev/loop-control", 0x4C80, 0x4C81
LOOPS = range(40, 47)
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    heard = Heard()
    await heard.uevents.open()
    yield heard
    heard.uevents.close()


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
    """Where loop devices are plugged; there are none of ours before and after."""
    descriptor = os.open(LOOP_CONTROL, os.O_RDWR)
    for when in ("before", "after"):
        for number in LOOPS:
            with suppress(OSError):  # it is not there
                fcntl.ioctl(descriptor, LOOP_REMOVE, number)
        if when == "before":
            yield descriptor
    os.close(descriptor)


async def test_listening_begins_with_a_look_at_everything(heard: Heard) -> None:
    """What came between the owner's first look and now was told to nobody."""
    assert heard.uevents.complete
    assert heard.all[0] is None


@as_root
@pytest.mark.skipif(not ZRAM.exists(), reason="this kernel has no zram to plug")
async def test_a_device_that_is_plugged_and_unplugged_is_told(heard: Heard) -> None:
    """D3: seen at once. Without ``add_reader`` it is never seen."""
    with zram() as syspath:
        await heard.until(lambda: ("add", syspath) in heard.pairs(syspath))
    await heard.until(lambda: ("remove", syspath) in heard.pairs(syspath))
    assert {e.subsystem for e in heard.all if e is not None and e.syspath == syspath} == {"block"}


@as_root
@pytest.mark.skipif(not Path(LOOP_CONTROL).exists(), reason="this kernel has no loop devices")
async def test_each_of_a_burst_of_seven_is_told_once(heard: Heard, loop_control: int) -> None:
    syspaths = [f"/sys/devices/virtual/block/loop{number}" for number in LOOPS]

    def told_as(action: str) -> list[str]:
        return [syspath for told, syspath in heard.pairs(*syspaths) if told == action]

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
    told = [event.syspath for event in heard.all if event is not None]
    assert not [syspath for syspath in told if not syspath.startswith("/sys/devices/")]


@as_root
async def test_an_overrun_calls_for_one_look_at_everything_and_is_over() -> None:
    """Without ``_clear_error`` the socket's error stays and the monitor is given up."""
    heard = Heard(few)
    await heard.uevents.open()
    try:
        for _ in range(200):
            tell()
        await heard.until(lambda: heard.all.count(None) == 2)
        assert len(heard.all) < 200
        tell()
        await heard.until(lambda: heard.all[-1] is not None)
        assert heard.pairs(NULL)[-1] == ("change", NULL)
        assert heard.uevents.complete
    finally:
        heard.uevents.close()


@as_root
async def test_nothing_is_told_after_the_end(heard: Heard) -> None:
    heard.uevents.close()
    before = list(heard.all)
    tell()
    other = Heard()
    await other.uevents.open()
    tell()
    await other.until(lambda: bool(other.pairs(NULL)))
    other.uevents.close()
    assert heard.all == before


@dataclass
class Made:
    """An event as a monitor tells it."""

    sys_path: str
    action: str = "change"
    subsystem: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


LOST = OSError(errno.ENOBUFS, "No buffer space available")


class Script:
    """A monitor that tells what it was given; an OSError in it is raised."""

    def __init__(self, told: Sequence[Told | OSError] = (), *, for_ever: OSError | None = None):
        self.told = list(told)
        self.for_ever = for_ever
        self.readable, self.writable = os.pipe()
        os.write(self.writable, b"x")

    def __del__(self) -> None:
        os.close(self.readable)
        os.close(self.writable)

    def fileno(self) -> int:
        return self.readable

    def poll(self, timeout: float | None = None) -> Told | None:
        assert timeout == 0, "the loop would wait"
        if self.for_ever is not None:
            raise self.for_ever
        if not self.told:
            os.read(self.readable, 1)
            return None
        next_one = self.told.pop(0)
        if isinstance(next_one, OSError):
            raise next_one
        return next_one


async def heard_of(script: Callable[[], Script], reached: Callable[[Heard], bool]) -> Heard:
    heard = Heard(script)
    await heard.uevents.open()
    await heard.until(lambda: reached(heard))
    heard.uevents.close()
    return heard


async def test_a_move_tells_both_places() -> None:
    moved = Made(
        "/sys/devices/pci0/net/ens1",
        action="move",
        subsystem="net",
        properties={"DEVPATH_OLD": "/devices/pci0/net/eth0"},
    )
    heard = await heard_of(lambda: Script([moved]), lambda heard: len(heard.all) == 2)
    assert heard.all[1] == Uevent(
        action="move",
        syspath="/sys/devices/pci0/net/ens1",
        subsystem="net",
        former_syspath="/sys/devices/pci0/net/eth0",
    )


async def test_a_flood_leaves_the_loop_its_turns() -> None:
    """Drained in one go, ten thousand events would hold up an allocation for 300 ms."""
    heard = Heard(lambda: Script([Made(f"/sys/devices/{i}") for i in range(1000)]))
    await heard.uevents.open()
    most, before = 0, len(heard.all)
    async with asyncio.timeout(10):
        while len(heard.all) < 1001:
            await asyncio.sleep(0)
            most, before = max(most, len(heard.all) - before), len(heard.all)
    heard.uevents.close()
    assert 0 < most <= 256


@settings(max_examples=examples(25))
@given(st.lists(st.booleans(), max_size=600))
def test_what_is_not_told_is_made_up_for_by_a_later_look_at_everything(lost: list[bool]) -> None:
    """The kernel drops more until its queue is empty, so the look comes only then."""

    async def run() -> None:
        told: list[Told | OSError] = [
            LOST if one else Made(f"/sys/devices/{i}") for i, one in enumerate(lost)
        ]
        heard = Heard(lambda: Script(told))
        await heard.uevents.open()
        first = lost.index(True) if any(lost) else len(lost)
        await heard.until(lambda: len(heard.all) == 1 + first + any(lost))
        heard.uevents.close()
        seen = [event and event.syspath for event in heard.all[1:]]
        assert seen == [f"/sys/devices/{i}" for i in range(first)] + [None] * any(lost)

    asyncio.run(run())


async def test_a_monitor_that_only_fails_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise it would keep the loop busy for ever."""
    heard = Heard(lambda: Script(for_ever=OSError("gone")))
    await heard.uevents.open()
    await heard.until(lambda: len(heard.all) == 2)
    assert heard.all == [None, None]
    assert not heard.uevents.complete
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("error", [OSError("no netlink"), ImportError("No library named udev")])
async def test_no_monitor_is_said_once_and_leaves_polling_to_the_owner(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Monitor:
        raise error

    heard = Heard(fail)
    await heard.uevents.open()
    assert not heard.uevents.complete
    assert heard.all == []
    assert [record.getMessage() for record in caplog.records] == [
        f"events of the kernel cannot be had ({error}): polling instead"
    ]
    heard.uevents.close()


async def test_a_monitor_is_used_when_it_can_be_had(caplog: pytest.LogCaptureFixture) -> None:
    """It may have failed for lack of a descriptor."""
    caplog.set_level("INFO")
    scripts: list[Script | None] = [None, Script(for_ever=OSError("gone")), None, Script()]

    def scarce() -> Monitor:
        if (script := scripts.pop(0)) is None:
            raise OSError("no descriptor")
        return script

    heard = Heard(scarce)
    for looks in (0, 2, 2, 3):
        await heard.uevents.open()
        await heard.until(lambda: len(heard.all) == looks)  # noqa: B023
    assert heard.uevents.complete
    heard.uevents.close()
    had = [" can be had again" in record.getMessage() for record in caplog.records]
    assert had == [False, True] * 2


async def test_an_end_while_it_opens_leaves_nothing() -> None:
    heard = Heard()
    async with asyncio.TaskGroup() as group:
        group.create_task(heard.uevents.open(), name="open")
        await asyncio.sleep(0)
        heard.uevents.close()
    assert not heard.uevents.complete
    assert heard.all == []


def test_pyudev_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, genericdp.host.uevents; sys.exit('pyudev' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
