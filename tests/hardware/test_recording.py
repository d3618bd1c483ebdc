"""A new device waits until udev has recorded it, where someone requests that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.host.cache import RECORD_SECONDS

from tests.decisions import Discoverer
from tests.devices.making import healthy, resource, unhealthy
from tests.hardware.adapters import IDS, NAMES, RECORDED, SERIAL, built, events
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cases.machine import Machine

FIRST = NAMES[0]
BY_PATH = resource("serial", "/dev/ttyUSB*", id="$(property.ID_PATH:-unknown)")
PATH = "pci-0000:00:14.0-usb-0:1.1:1.0"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with udev."""
    machine = built("serial-adapters", tmp_path)
    machine.write("/run/udev/control", "")
    return machine


def plug_unrecorded(machine: Machine, discoverer: Discoverer) -> None:
    """Plug a device in and report it; udev has not seen it yet."""
    machine.plug_in(FIRST, {})
    for entry in machine.below(FIRST):
        machine.path(f"/run/udev/data/{loading.record_name(entry)}").unlink(missing_ok=True)
    for event in events("add", machine, FIRST):
        discoverer.mark_event(event)


@pytest.mark.parametrize("ends", ["with its record", "without"])
async def test_where_udev_runs_a_new_device_waits_for_its_record(
    machine: Machine, ends: str
) -> None:
    time = 0.0
    machine.pull_out(FIRST)
    discoverer = Discoverer(machine.root, now=lambda: time)
    lists = (await discoverer.discover([BY_PATH], {})).lists
    assert len(healthy(lists, "serial")) == 3
    plug_unrecorded(machine, discoverer)
    found = await discoverer.discover([BY_PATH], lists, full=False)
    assert len(healthy(found.lists, "serial")) == 3, "not under an id that it would lose"
    assert found.due == RECORD_SECONDS
    if ends == "without":
        time = RECORD_SECONDS
    else:
        for entry in filter(lambda entry: entry.udev, machine.below(FIRST)):
            name = loading.record_name(entry)
            machine.write(f"/run/udev/data/{name}", loading.record_of(entry))
            discoverer.mark_record(name)
    found = await discoverer.discover([BY_PATH], found.lists, full=False)
    expected = PATH if ends == "with its record" else "unknown"
    assert expected in healthy(found.lists, "serial")


async def test_a_device_that_is_back_is_said_to_wait_for_its_record(machine: Machine) -> None:
    """It was said to be no longer matched."""
    discoverer = Discoverer(machine.root)
    lists = (await discoverer.discover([BY_PATH], {})).lists
    gone = events("remove", machine, FIRST)
    machine.pull_out(FIRST)
    for event in gone:
        discoverer.mark_event(event)
    lists = (await discoverer.discover([BY_PATH], lists, full=False)).lists
    assert unhealthy(lists, "serial") == {PATH: "/dev/ttyUSB0 does not exist"}
    plug_unrecorded(machine, discoverer)
    lists = (await discoverer.discover([BY_PATH], lists, full=False)).lists
    reason = "/dev/ttyUSB0 is back, but udev has not recorded it yet"
    assert unhealthy(lists, "serial") == {PATH: reason}


async def test_who_asks_for_no_properties_does_not_wait(machine: Machine) -> None:
    machine.pull_out(FIRST)
    discoverer = Discoverer(machine.root)
    lists = (await discoverer.discover([SERIAL], {})).lists
    plug_unrecorded(machine, discoverer)
    lists = (await discoverer.discover([SERIAL], lists, full=False)).lists
    assert healthy(lists, "serial") == IDS


async def test_without_udev_nobody_waits(machine: Machine) -> None:
    machine.remove("/run/udev/control")
    machine.pull_out(FIRST)
    discoverer = Discoverer(machine.root)
    lists = (await discoverer.discover([RECORDED], {})).lists
    machine.plug_in(FIRST, {})
    for event in events("add", machine, FIRST):
        discoverer.mark_event(event)
    lists = (await discoverer.discover([RECORDED], lists, full=False)).lists
    assert healthy(lists, "recorded") == IDS
