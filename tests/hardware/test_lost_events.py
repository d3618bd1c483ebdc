"""The kernel's queue overruns: what happened meanwhile is found all the same."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host.root import Root
from genericdp.model import Selector

from tests.decisions import Discoverer
from tests.devices.making import healthy, resource
from tests.host.hearing import alone, as_root, few, hearing, tell
from tests.selecting import udev_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROL, ADD, REMOVE = Path("/dev/loop-control"), 0x4C80, 0x4C81
NUMBERS = (51, 52)
NAMES = [f"loop{number}" for number in NUMBERS]
LOOPS = resource(
    "loops", Selector(candidates=udev_selector(subsystem=("block",), name=tuple(NAMES)))
)


@pytest.fixture
def control() -> Iterator[int]:
    """Return where loop devices are plugged: the first one of ours is there, at the end none."""
    descriptor = os.open(CONTROL, os.O_RDWR)
    try:
        for number in NUMBERS:
            with suppress(OSError):  # it is not there
                fcntl.ioctl(descriptor, REMOVE, number)
        fcntl.ioctl(descriptor, ADD, NUMBERS[0])
        with alone():
            yield descriptor
    finally:
        for number in NUMBERS:
            with suppress(OSError):
                fcntl.ioctl(descriptor, REMOVE, number)
        os.close(descriptor)


@as_root
@pytest.mark.skipif(not CONTROL.exists(), reason="this kernel has no loop devices")
async def test_what_comes_and_goes_in_a_flood_of_events_is_not_lost(control: int) -> None:
    """Without the call for a read everything the list stays as it was before the flood."""
    discoverer = Discoverer(Root(Path("/")), look_again=lambda: None)
    async with hearing(few) as heard:
        offers = (await discoverer.discover([LOOPS], {})).lists
        assert healthy(offers, "loops") == NAMES[:1]
        heard.all.clear()
        for i in range(2_000):
            tell()
            if i == 1_000:
                fcntl.ioctl(control, REMOVE, NUMBERS[0])
                fcntl.ioctl(control, ADD, NUMBERS[1])
        await heard.until(lambda: None in heard.all)
        assert len(heard.all) < 2_000
        assert not [event for event in heard.all if event and event.syspath.endswith(tuple(NAMES))]
        for event in heard.all:
            discoverer.mark_event(event)
        offers = (await discoverer.discover([LOOPS], offers, full=False)).lists
        assert healthy(offers, "loops") == NAMES[1:]
