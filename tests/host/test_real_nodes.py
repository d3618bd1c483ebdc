"""On devtmpfs, a loop device that is removed and added again. Needs root."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host.devicefiles import DeviceFiles, is_same
from genericdp.host.root import Root
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Iterator

ADD, REMOVE = 0x4C80, 0x4C81
NUMBERS = range(70, 79)
"""One of them is free even if a run that was killed has left some of its devices."""
MACHINE = Root(Path("/"))

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/loop-control", os.R_OK | os.W_OK),
    reason="making loop devices needs root and /dev/loop-control",
)


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
def number(control: int) -> Iterator[int]:
    """Add a loop device, and return its number."""
    free = [number for number in NUMBERS if not os.path.exists(f"/dev/loop{number}")]
    try:
        fcntl.ioctl(control, ADD, free[0])
    except (IndexError, OSError) as error:
        pytest.skip(f"no loop device can be added here: {error}")
    yield free[0]
    fcntl.ioctl(control, REMOVE, free[0])


def test_a_device_that_was_removed_and_added_again_is_another_one(
    control: int, number: int
) -> None:
    """D4, D5: the number is the same."""
    path = f"/dev/loop{number}"
    before = DeviceFiles(MACHINE).examine(path)
    assert before is not None
    assert before.type is FileType.BLOCK
    assert before.identity.device_number == (7, number)
    assert before.identity.syspath == f"/sys/devices/virtual/block/loop{number}"
    assert is_same(MACHINE, path, before.identity) is True
    fcntl.ioctl(control, REMOVE, number)
    assert is_same(MACHINE, path, before.identity) is None
    fcntl.ioctl(control, ADD, number)
    after = DeviceFiles(MACHINE).examine(path)
    assert after is not None
    assert after.identity.device_number == before.identity.device_number
    assert is_same(MACHINE, path, before.identity) is False
    if os.path.exists(f"{before.identity.syspath}/diskseq"):
        assert after.identity.plugged.startswith("diskseq ")
        assert after.identity.plugged != before.identity.plugged
