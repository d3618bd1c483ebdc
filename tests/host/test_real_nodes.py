"""On real device nodes: loop devices that come and go. Needs root."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.devicefiles import DeviceFiles, is_same
from genericdp.host.events import ENTRIES, DirectoryWatch
from genericdp.host.root import Root
from genericdp.model import FileType

from tests.devices.making import healthy, resource, unhealthy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.devices.decide import Decision

ADD, REMOVE = 0x4C80, 0x4C81
TRIPLES = (range(70, 73), range(73, 76), range(76, 79))
"""One of them is free even if a run that was killed has left some of its devices."""
MACHINE = Root(Path("/"))

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/loop-control", os.R_OK | os.W_OK),
    reason="making loop devices needs root and /dev/loop-control",
)


class Loops:
    """Three loop devices of this test alone, by number."""

    def __init__(self, control: int, numbers: range) -> None:
        self.first, self.second, self.third = numbers
        self.pattern = f"/dev/loop7[{numbers[0] % 10}-{numbers[-1] % 10}]"
        self._control = control

    def add(self, number: int) -> str:
        try:
            fcntl.ioctl(self._control, ADD, number)
        except OSError as error:
            pytest.skip(f"no loop device can be added here: {error}")
        return f"/dev/loop{number}"

    def remove(self, number: int) -> None:
        fcntl.ioctl(self._control, REMOVE, number)

    def close(self) -> None:
        for number in (self.first, self.second, self.third):
            if os.path.exists(f"/dev/loop{number}"):
                self.remove(number)


@pytest.fixture
def control() -> Iterator[int]:
    """Return what adds and removes loop devices, locked: another run of these tests has to wait."""
    descriptor = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.fixture
def loops(control: int) -> Iterator[Loops]:
    free = [
        numbers
        for numbers in TRIPLES
        if not any(os.path.exists(f"/dev/loop{number}") for number in numbers)
    ]
    if not free:
        pytest.skip("loop devices 70 to 78 belong to someone else")
    loops = Loops(control, free[0])
    yield loops
    loops.close()


def look(loops: Loops, previous: Decision | None = None) -> Decision:
    return decide(
        [resource("loop", loops.pattern)],
        HostCache(MACHINE),
        node_name="node-1",
        previous=previous.lists if previous else {},
        now=0.0,
    )


def test_real_devices_come_and_go(loops: Loops) -> None:
    """D3, on real nodes."""
    path, other = loops.add(loops.first), f"loop{loops.third}"
    name = path.removeprefix("/dev/")
    first = look(loops)
    assert healthy(first.lists, "loop") == [name]
    loops.remove(loops.first)
    loops.add(loops.third)
    second = look(loops, first)
    assert healthy(second.lists, "loop") == [other]
    assert unhealthy(second.lists, "loop") == {name: f"{path} does not exist"}


def test_a_device_that_was_removed_and_added_again_is_another_one(loops: Loops) -> None:
    """D4, D5, on devtmpfs: the number is the same."""
    path = loops.add(loops.first)
    before = DeviceFiles(MACHINE).examine(path)
    assert before is not None
    assert before.type is FileType.BLOCK
    assert before.identity.device_number == (7, loops.first)
    assert before.identity.syspath == f"/sys/devices/virtual/block/loop{loops.first}"
    assert is_same(MACHINE, path, before.identity) is True
    loops.remove(loops.first)
    assert is_same(MACHINE, path, before.identity) is None
    loops.add(loops.first)
    after = DeviceFiles(MACHINE).examine(path)
    assert after is not None
    assert after.identity.device_number == before.identity.device_number
    assert is_same(MACHINE, path, before.identity) is False
    if os.path.exists(f"{before.identity.syspath}/diskseq"):
        assert after.identity.plugged.startswith("diskseq ")
        assert after.identity.plugged != before.identity.plugged


async def test_the_kernel_tells_of_both(loops: Loops) -> None:
    changed = asyncio.Event()
    watch = DirectoryWatch(lambda *_: changed.set(), what="test")
    try:
        assert await watch.set_directories({"/dev": ENTRIES})
        for change in (loops.add, loops.remove):
            changed.clear()
            change(loops.second)
            async with asyncio.timeout(60):
                await changed.wait()
    finally:
        watch.close()
