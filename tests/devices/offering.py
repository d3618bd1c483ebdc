"""Decisions about machines of ``tests.devices.rack``, and what they offer of the hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.decide import decide
from genericdp.model import Inject, Selector

from tests.devices.making import inject, resource
from tests.devices.rack import Part
from tests.selecting import udev_selector, usb_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.model import Resource

    from tests.devices.rack import Machine

WITH_NODES = (
    *("block", "bsg", "drm", "hidraw", "i2c-dev", "infiniband_verbs", "input", "media"),
    *("mmc_rpmb", "npu", "nvme-generic", "scsi_generic", "sound", "spidev", "tty", "video4linux"),
)
WITHOUT_NODES = ("infiniband", "mdev", "net")
_NAME = Inject(devices=(), env=inject(env={"NAME": "$(device.name)"}).env)

Offers = dict[tuple[str, Part], list[str]]
"""By resource and part: the IDs under which it is on offer. More than one is a fault."""


def resource_of(subsystem: str, **keys: object) -> Resource:
    """A resource that offers everything of a subsystem, ``example.com/SUBSYSTEM``."""
    match = Selector(candidates=udev_selector(subsystem=(subsystem,)))
    given = None if subsystem in WITH_NODES else _NAME
    return resource(subsystem.replace("_", "-"), match, given=given, **keys)  # type: ignore[arg-type]


EVERYTHING = (
    *map(resource_of, (*WITH_NODES, *WITHOUT_NODES)),
    resource("usb", Selector(candidates=usb_selector(vendor=("0403",)))),
)


def offered_shares(listed: Entry[Device]) -> tuple[str, ...]:
    """Return the shares of a device that are Healthy in the list."""
    if not listed.is_healthy:
        return ()
    return tuple(share for share in listed.device.shares if share not in listed.withheld)


def offers(lists: Mapping[str, DeviceList], machine: Machine) -> Offers:
    """Return what is on offer, by what it is."""
    found, parts = Offers(), machine.parts
    for name, devices in lists.items():
        for device_id, listed in devices.devices.items():
            if offered_shares(listed):
                found.setdefault((name, parts[listed.device.path]), []).append(device_id)
    return found


def look(machine: Machine, previous: Mapping[str, DeviceList] | None = None) -> DeviceLists:
    """Decide about a machine."""
    return decide(EVERYTHING, machine.host, node_name="n", previous=previous or {}, now=0.0).lists
