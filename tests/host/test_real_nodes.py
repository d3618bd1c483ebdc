"""On real device nodes: loop devices that come and go. Needs root."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.discovery import discover
from genericdp.host.devicefiles import Looker, is_same
from genericdp.host.root import Root
from genericdp.inotify import FolderWatch
from genericdp.model import FileType
from tests.devices.making import healthy, resource, unhealthy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.discovery import Discovery

ADD, REMOVE = 0x4C80, 0x4C81
NUMBERS = range(70, 73)
MACHINE = Root(Path("/"))

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/loop-control", os.R_OK | os.W_OK),
    reason="making loop devices needs root and /dev/loop-control",
)


class Loops:
    """Loop devices of this test alone."""

    def __init__(self) -> None:
        self._control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)

    def add(self, number: int) -> str:
        try:
            fcntl.ioctl(self._control, ADD, number)
        except OSError as error:
            pytest.skip(f"no loop device can be added here: {error}")
        return f"/dev/loop{number}"

    def remove(self, number: int) -> None:
        fcntl.ioctl(self._control, REMOVE, number)

    def close(self) -> None:
        for number in NUMBERS:
            if os.path.exists(f"/dev/loop{number}"):
                self.remove(number)
        os.close(self._control)


@pytest.fixture
def loops() -> Iterator[Loops]:
    if any(os.path.exists(f"/dev/loop{number}") for number in NUMBERS):
        pytest.skip("loop devices 70 to 72 belong to somebody else")
    loops = Loops()
    yield loops
    loops.close()


def look(previous: Discovery | None = None) -> Discovery:
    return discover(
        [resource("loop", "/dev/loop7[0-2]")],
        Looker(MACHINE).look,
        node_name="node-1",
        previous=previous.offers if previous else {},
        now=0.0,
    )


def test_real_devices_come_and_go(loops: Loops) -> None:
    """D3, on real nodes: brought back by keeping what ``advance`` was given before."""
    loops.add(70)
    first = look()
    assert healthy(first.offers, "loop") == ["loop70"]
    assert "/dev" in first.folders
    loops.remove(70)
    loops.add(72)
    second = look(first)
    assert healthy(second.offers, "loop") == ["loop72"]
    assert unhealthy(second.offers, "loop") == {"loop70": "/dev/loop70 does not exist"}


def test_a_device_that_was_removed_and_added_again_is_another_one(loops: Loops) -> None:
    """D4, D5, on devtmpfs: the number 7:70 is the same.

    Brought back by comparing ``device_number`` alone in ``is_same``.
    """
    path = loops.add(70)
    before = Looker(MACHINE).examine(path)
    assert before is not None
    assert before.type is FileType.BLOCK
    assert before.identity.device_number == (7, 70)
    assert before.identity.syspath == "/sys/devices/virtual/block/loop70"
    assert is_same(MACHINE, path, before.identity) is True
    loops.remove(70)
    assert is_same(MACHINE, path, before.identity) is None
    loops.add(70)
    after = Looker(MACHINE).examine(path)
    assert after is not None
    assert after.identity.device_number == before.identity.device_number
    assert is_same(MACHINE, path, before.identity) is False
    if os.path.exists("/sys/devices/virtual/block/loop70/diskseq"):
        assert after.identity.plugged.startswith("diskseq ")
        assert after.identity.plugged != before.identity.plugged


async def test_the_kernel_tells_of_both(loops: Loops) -> None:
    changed = asyncio.Event()
    watch = FolderWatch(changed.set, what="test")
    try:
        assert watch.set_folders(["/dev"])
        for change in (loops.add, loops.remove):
            changed.clear()
            change(71)
            async with asyncio.timeout(5):
                await changed.wait()
    finally:
        watch.close()
