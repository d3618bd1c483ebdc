"""A device is the hardware at its place, whatever the kernel calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.decisions import Discoverer
from tests.devices.making import healthy, unhealthy
from tests.hardware.adapters import IDS, PORTS, SERIAL
from tests.hardware.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_same_port_keeps_its_id_and_the_node_is_that_of_the_new_stick(
    tmp_path: Path,
) -> None:
    machine = Machine("serial-adapters", tmp_path)
    discoverer = Discoverer(machine.root, look_again=lambda: None)
    first = (await discoverer.discover([SERIAL], {})).lists
    for event in machine.unplug(PORTS[3]):
        discoverer.mark_event(event)
    gone = (await discoverer.discover([SERIAL], first, full=False)).lists
    assert unhealthy(gone, "serial") == {IDS[3]: "/dev/ttyUSB3 does not exist"}
    for event in machine.plug(PORTS[3], {"A: devnum=6": "A: devnum=17"}):
        discoverer.mark_event(event)
    back = (await discoverer.discover([SERIAL], gone, full=False)).lists
    assert healthy(back, "serial") == IDS
    old, new = (one["example.com/serial"].devices[IDS[3]].device for one in (first, back))
    assert (old.identity.plugged, new.identity.plugged) == ("usb 1:6", "usb 1:17")
