"""IDs that are only as stable as a name that the kernel assigns at boot, and what to write instead.

A stable ID is the same after a reboot, so a suggestion consists of facts about the hardware that no
other device of the resource has. If there are none, ``id: $(device.name)`` confirms the kernel's
name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.hardware import HARDWARE, is_usb_device
from genericdp.devices.lookup import Names
from genericdp.printing import first_few
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import Inventory
    from genericdp.model import Resource

_SERIAL, _MAC = ("usb", "serial"), ("net", "address")
_FACTS = (
    _SERIAL,
    ("property", "DM_UUID"),
    ("property", "MD_UUID"),
    ("property", "ID_PART_ENTRY_UUID"),
    ("property", "ID_WWN_WITH_EXTENSION"),
    ("property", "ID_WWN"),
    ("property", "ID_SERIAL"),
    _MAC,
    *((name, kind.single[0]) for name, kind in HARDWARE.items()),
)
"""Scope and name of the templates that are tried, the best first."""
KERNEL_NAME = "$(device.name)"
_MAX_IDS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class WeakIds:
    """Devices of a resource with IDs that can name other hardware after a reboot."""

    resource: str
    ids: tuple[str, ...]
    why: str
    template: str
    """What to write as ``id``."""

    @property
    def sentence(self) -> str:
        """The warning, without the resource."""
        several = len(self.ids) > 1
        subject = (
            f"the IDs {first_few(self.ids, _MAX_IDS)} are"
            if several
            else (f"the ID {self.ids[0]} is")
        )
        return f"{subject} {self.why}"

    @property
    def hint(self) -> str:
        """The suggestion."""
        meant = " if the kernel's name is meant" if self.template == KERNEL_NAME else ""
        return f"write id: {self.template}{meant}"

    def __str__(self) -> str:
        return f"{self.resource}: {self.sentence} ({self.hint})"


def weak_ids(
    resources: Sequence[Resource], lists: Mapping[str, DeviceList], inventory: Inventory
) -> Iterator[WeakIds]:
    """Yield the weak IDs in device lists, by resource and reason."""
    declared = {resource.name: resource for resource in resources}
    for name, listed in lists.items():
        devices = [entry.device for entry in listed.devices.values()]
        reasons = dict.fromkeys(device.weak_id for device in devices if device.weak_id)
        if not reasons:
            continue
        template = suggested_id(declared[listed.template or name], devices, inventory)
        for why in reasons:
            ids = tuple(device.id for device in devices if device.weak_id == why)
            yield WeakIds(resource=name, ids=ids, why=why, template=template)


def suggested_id(resource: Resource, devices: Sequence[Device], inventory: Inventory) -> str:
    """Return a template with which each device of a resource has its own stable ID."""
    names = [_names_of(device, resource, inventory) for device in devices]
    for fact in _FACTS:
        texts = [_text_of(of_members, fact) for of_members in names]
        if None in texts or len({*texts}) < len(texts):
            continue
        if fact == _SERIAL and not {*texts}.isdisjoint(_repeated_serials(inventory)):
            continue
        return f"$({'.'.join(fact)})"
    return KERNEL_NAME


def _names_of(device: Device, resource: Resource, inventory: Inventory) -> list[Names]:
    """Return the template variables of each member; there are none without a device in sysfs."""
    names = []
    for member in device.members or (device,):
        syspath = member.identity.syspath
        found = None if syspath is None else inventory.host.device(syspath)
        candidate = None if found is None else inventory.of_device(found)
        if candidate is None:
            return []
        names.append(Names(candidate, resource=resource, inventory=inventory))
    return names


def _text_of(names: Sequence[Names], fact: tuple[str, str]) -> str | None:
    """Return a fact that all members of a device share, or None."""
    texts = {_text_of_member(name, fact) for name in names}
    return texts.pop() or None if len(texts) == 1 else None


def _text_of_member(names: Names, fact: tuple[str, str]) -> str | None:
    try:
        if fact == _MAC and names.get_text("attribute", "addr_assign_type") != "0":
            return None  # made up by the kernel, or set by an administrator
        return names.get_text(*fact)
    except UnusableValueError:
        return None


def _repeated_serials(inventory: Inventory) -> frozenset[str]:
    """Return the serial numbers that several USB devices of the machine have."""
    host, seen, repeated = inventory.host, set[str](), set[str]()
    for device in filter(is_usb_device, host.members("usb")):
        if serial := host.attribute(device.syspath, "serial"):
            (repeated if serial in seen else seen).add(serial)
    return frozenset(repeated)
