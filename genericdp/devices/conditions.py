"""The conditions of a selector, one after the other, with what was found and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.hardware import (
    driver_of,
    is_net_interface,
    is_pci_function,
    is_usb_device,
    lineage,
    nearest,
    net_text,
    pci_text,
    usb_text,
)
from genericdp.model import NetSelector, PciSelector, UdevSelector, UsbSelector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.devices.sysdevice import Facts, SysDevice
    from genericdp.model import Globs, Hardware

SysSelector = UdevSelector | UsbSelector | PciSelector | NetSelector


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One condition, and what the host says to it."""

    key: str
    """As the config has it: ``usb.vendor``, ``hardware.udev.properties.ID_BUS``."""
    wanted: Globs
    found: str | None
    """None: the device has no such thing."""
    where: str
    """The device that was asked."""
    ignore_case: bool = False

    @property
    def holds(self) -> bool:
        """Say whether it does; without globs it asks for nothing."""
        if not self.wanted:
            return True
        return self.found is not None and glob.matches_any(
            self.wanted, self.found, ignore_case=self.ignore_case
        )


def is_candidate_of(selector: SysSelector, device: SysDevice) -> bool:
    """Say whether the selector looks at such devices at all."""
    match selector:
        case UsbSelector():
            return is_usb_device(device)
        case PciSelector():
            return is_pci_function(device)
        case NetSelector():
            return is_net_interface(device)
        case UdevSelector():
            return not selector.subsystem or glob.matches_any(selector.subsystem, device.subsystem)


def subsystem_globs(selector: SysSelector) -> Globs:
    """Give the subsystems in which the selector's candidates are; empty: all."""
    match selector:
        case UsbSelector():
            return ("usb",)
        case PciSelector():
            return ("pci",)
        case NetSelector():
            return ("net",)
        case UdevSelector():
            return selector.subsystem


def conditions(
    selector: SysSelector, device: SysDevice, facts: Facts, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Give the conditions of a selector for one device; ``sitting`` is what sits on it."""
    match selector:
        case UdevSelector():
            yield from _udev(selector, device, facts, f"{prefix}udev")
        case UsbSelector():
            for name, globs in _named(selector):
                found = usb_text(device, name, facts, sitting=sitting)
                yield _condition(f"{prefix}usb.{name}", globs, found, device, hexadecimal=True)
        case PciSelector():
            for name, globs in _named(selector):
                found = pci_text(device, name, facts)
                yield _condition(f"{prefix}pci.{name}", globs, found, device, hexadecimal=True)
        case NetSelector():
            for name, globs in _named(selector):
                found = net_text(device, name, facts)
                yield _condition(f"{prefix}net.{name}", globs, found, device)


_CAMEL = {
    "subsystem_vendor": "subsystemVendor",
    "subsystem_device": "subsystemDevice",
    "iommu_group": "iommuGroup",
    "link_type": "linkType",
    "device_class": "class",
}
_TEXTS = {"serial", "port", "name", "driver"}
"""Of the others, hexadecimal ids compare without case."""


def _named(selector: SysSelector) -> Iterator[tuple[str, Globs]]:
    for field in selector.__dataclass_fields__:
        value = getattr(selector, field)
        globs = (value,) if isinstance(value, str) and value else value
        if globs:
            yield _CAMEL.get(field, field), globs


def _condition(
    key: str, globs: Globs, found: str | None, device: SysDevice, *, hexadecimal: bool = False
) -> Condition:
    ignore_case = hexadecimal and key.rpartition(".")[2] not in _TEXTS
    return Condition(
        key=key, wanted=globs, found=found, where=device.syspath, ignore_case=ignore_case
    )


def _udev(
    selector: UdevSelector, device: SysDevice, facts: Facts, prefix: str
) -> Iterator[Condition]:
    own = {
        "subsystem": (selector.subsystem, device.subsystem or None),
        "devtype": (selector.devtype, device.devtype or None),
        "name": (selector.name, device.name),
    }
    for name, (globs, found) in own.items():
        if globs:
            yield _condition(f"{prefix}.{name}", globs, found, device)
    if selector.driver:
        yield _condition(f"{prefix}.driver", selector.driver, driver_of(device, facts), device)
    for name, globs in selector.properties.items():
        found = device.properties.get(name)
        yield _condition(f"{prefix}.properties.{name}", globs, found, device)
    for name, globs in selector.attributes.items():
        found = facts.attribute(device.syspath, name)
        yield _condition(f"{prefix}.attributes.{name}", globs, found, device)


def first_failure(
    selector: SysSelector, device: SysDevice, facts: Facts, *, prefix: str = "", sitting: SysDevice
) -> Condition | None:
    """Give the first condition that does not hold; None if the selector takes the device."""
    asked = conditions(selector, device, facts, prefix=prefix, sitting=sitting)
    return next((one for one in asked if not one.holds), None)


def hardware_failure(hardware: Hardware, device: SysDevice, facts: Facts) -> Condition | None:
    """Give the first condition on what the device is or sits on that does not hold."""
    for selector, is_one, what in (
        (hardware.usb, is_usb_device, "usb"),
        (hardware.pci, is_pci_function, "pci"),
    ):
        if selector is None:
            continue
        below = nearest(device, facts, is_one)
        if below is None:
            return Condition(
                key=f"hardware.{what}", wanted=("*",), found=None, where=device.syspath
            )
        failure = first_failure(selector, below, facts, prefix="hardware.", sitting=device)
        if failure is not None:
            return failure
    return _any_ancestor(hardware.udev, device, facts) if hardware.udev is not None else None


def _any_ancestor(selector: UdevSelector, device: SysDevice, facts: Facts) -> Condition | None:
    """All conditions must hold for one and the same ancestor; else give the best one's failure."""
    furthest: tuple[int, Condition] | None = None
    for one in lineage(device, facts):
        asked = list(conditions(selector, one, facts, prefix="hardware.", sitting=device))
        held = next((i for i, condition in enumerate(asked) if not condition.holds), None)
        if held is None:
            return None
        if furthest is None or held > furthest[0]:
            furthest = (held, asked[held])
    return furthest[1] if furthest else None
