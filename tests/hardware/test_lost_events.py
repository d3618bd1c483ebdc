"""The kernel's queue overruns: what happened meanwhile is found all the same."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.discovery import Discoverer
from genericdp.host.root import Root
from genericdp.host.uevents import Uevents
from genericdp.model import Selector, UdevSelector
from tests.devices.making import healthy, resource
from tests.host.hearing import as_root, few, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.host.uevents import Uevent

CONTROL, ADD, REMOVE = Path("/dev/loop-control"), 0x4C80, 0x4C81
NUMBERS = (51, 52)
NAMES = [f"loop{number}" for number in NUMBERS]
LOOPS = resource(
    "loops", Selector(candidates=UdevSelector(subsystem=("block",), name=tuple(NAMES)))
)


@pytest.fixture
def control() -> Iterator[int]:
    """Where loop devices are plugged: the first one of ours is there, at the end none."""
    descriptor = os.open(CONTROL, os.O_RDWR)
    try:
        for number in NUMBERS:
            with suppress(OSError):  # it is not there
                fcntl.ioctl(descriptor, REMOVE, number)
        fcntl.ioctl(descriptor, ADD, NUMBERS[0])
        yield descriptor
    finally:
        for number in NUMBERS:
            with suppress(OSError):
                fcntl.ioctl(descriptor, REMOVE, number)
        os.close(descriptor)


@as_root
@pytest.mark.skipif(not CONTROL.exists(), reason="this kernel has no loop devices")
async def test_what_comes_and_goes_in_a_flood_of_events_is_not_lost(control: int) -> None:
    """Without the None of ``Uevents._drained`` the list stays as it was before the flood."""
    again = asyncio.Event()
    told: list[Uevent | None] = []
    discoverer = Discoverer(Root(Path("/")), node_name="n", look_again=again.set)

    def changed(event: Uevent | None) -> None:
        told.append(event)
        discoverer.tell_of_event(event)

    uevents = Uevents(changed, open_monitor=few)
    await uevents.open()
    try:
        offers = (await discoverer.discover([LOOPS], {})).offers
        assert healthy(offers, "loops") == NAMES[:1]
        told.clear()
        for i in range(2_000):
            tell()
            if i == 1_000:
                fcntl.ioctl(control, REMOVE, NUMBERS[0])
                fcntl.ioctl(control, ADD, NUMBERS[1])
        async with asyncio.timeout(20):
            while None not in told:
                again.clear()
                await again.wait()
        assert len(told) < 2_000
        assert not [event for event in told if event and event.syspath.endswith(tuple(NAMES))]
        offers = (await discoverer.discover([LOOPS], offers, full=False)).offers
        assert healthy(offers, "loops") == NAMES[1:]
    finally:
        uevents.close()
