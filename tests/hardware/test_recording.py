"""A new device waits until udev has recorded it, where somebody asks for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.host.cache import RECORD_SECONDS
from tests.decisions import Discoverer
from tests.devices.making import healthy, resource, unhealthy
from tests.hardware.adapters import IDS, PORTS, RECORDED, SERIAL
from tests.hardware.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.mark.parametrize("ends", ["with-its-record", "without"])
async def test_where_udev_runs_a_new_device_waits_for_its_record(tmp_path: Path, ends: str) -> None:
    machine, clock = Machine("serial-adapters", tmp_path), Clock()
    (machine.folder / "run/udev/control").touch()
    machine.unplug(PORTS[0])
    given = resource("serial", "/dev/ttyUSB*", id="$(property.ID_PATH:-unknown)")
    discoverer = Discoverer(machine.root, look_again=lambda: None, now=clock)
    offers = (await discoverer.discover([given], {})).lists
    assert len(healthy(offers, "serial")) == 3
    for event in machine.plug(PORTS[0], recorded=False):
        discoverer.mark_event(event)
    found = await discoverer.discover([given], offers, full=False)
    assert len(healthy(found.lists, "serial")) == 3, "not under an id that it would lose"
    assert found.due == RECORD_SECONDS
    if ends == "with-its-record":
        for name in machine.record(PORTS[0]):
            discoverer.mark_record(name)
        expected = "pci-0000:00:14.0-usb-0:1.1:1.0"
    else:
        clock.time = RECORD_SECONDS
        expected = "unknown"
    found = await discoverer.discover([given], found.lists, full=False)
    assert expected in healthy(found.lists, "serial")


async def test_a_device_that_is_back_is_said_to_wait_for_its_record(tmp_path: Path) -> None:
    """It was said to be no longer matched."""
    machine = Machine("serial-adapters", tmp_path)
    (machine.folder / "run/udev/control").touch()
    discoverer = Discoverer(machine.root)
    given = resource("serial", "/dev/ttyUSB*", id="$(property.ID_PATH:-unknown)")
    lists = (await discoverer.discover([given], {})).lists
    for event in machine.unplug(PORTS[0]):
        discoverer.mark_event(event)
    lists = (await discoverer.discover([given], lists, full=False)).lists
    assert [one.endswith("does not exist") for one in unhealthy(lists, "serial").values()] == [True]
    for event in machine.plug(PORTS[0], recorded=False):
        discoverer.mark_event(event)
    lists = (await discoverer.discover([given], lists, full=False)).lists
    (reason,) = unhealthy(lists, "serial").values()
    assert reason.endswith("is back, but udev has not recorded it yet")


async def test_who_asks_for_no_properties_does_not_wait_nor_does_anybody_without_udev(
    tmp_path: Path,
) -> None:
    machine = Machine("serial-adapters", tmp_path)
    for control in (True, False):
        wanted = SERIAL if control else RECORDED
        if control:
            (machine.folder / "run/udev/control").touch()
        else:
            (machine.folder / "run/udev/control").unlink()
        machine.unplug(PORTS[0])
        discoverer = Discoverer(machine.root, look_again=lambda: None)
        offers = (await discoverer.discover([wanted], {})).lists
        for event in machine.plug(PORTS[0], recorded=not control):
            discoverer.mark_event(event)
        offers = (await discoverer.discover([wanted], offers, full=False)).lists
        assert healthy(offers, wanted.name.rpartition("/")[2]) == IDS
        machine.record(PORTS[0])
