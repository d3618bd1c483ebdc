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
    usb_part,
    usb_text,
)
from genericdp.model import NetSelector, PathSelector, PciSelector, UdevSelector, UsbSelector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.devices.sysdevice import Host, SysDevice
    from genericdp.model import Candidates, Globs, Hardware

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
    why: str = ""
    """Of a value: why nothing was found."""
    unknown: bool = False
    """Whether that does not mean that there is nothing."""

    @property
    def holds(self) -> bool:
        """Say whether it does; without globs it asks for nothing."""
        if not self.wanted:
            return True
        return self.found is not None and glob.matches_any(
            self.wanted, self.found, ignore_case=self.ignore_case
        )


FILES = {
    "usb.vendor": "idVendor",
    "usb.product": "idProduct",
    "usb.serial": "serial",
    "usb.class": "bDeviceClass",
    "usb.interface": "bInterfaceNumber",
    "usb.bus": "busnum",
    "usb.number": "devnum",
    "pci.vendor": "vendor",
    "pci.device": "device",
    "pci.subsystemVendor": "subsystem_vendor",
    "pci.subsystemDevice": "subsystem_device",
    "pci.class": "class",
    "pci.driver": "driver",
    "pci.function": "physfn",
    "pci.iommuGroup": "iommu_group",
    "net.linkType": "type",
    "net.address": "address",
    "udev.subsystem": "subsystem",
    "udev.devtype": "uevent",
    "udev.driver": "driver",
}
"""Where in a device's folder the answer to a condition stands."""
KINDS = frozenset({"usb", "pci", "net", "udev"})
"""Conditions that ask only what kind of device it is."""
OF_UEVENT = ("udev.devtype", "udev.properties.")
_OF_LINEAGE = {"udev.driver", "net.driver"}


def file_of(key: str, where: str) -> str:
    """Return the file that answers a condition, or an empty text."""
    key = key.removeprefix("hardware.")
    if key.startswith("udev.attributes."):
        return f"{where}/{key.removeprefix('udev.attributes.')}"
    return f"{where}/{FILES[key]}" if key in FILES else ""


def why_unknown(condition: Condition, host: Host) -> str:
    """Return why nobody can know whether a condition holds; empty if it surely does not."""
    return condition.why if condition.unknown else unread(condition.key, condition.where, host)


def unread(key: str, where: str, host: Host) -> str:
    """Return what could not be read of what a condition asks; empty if everything could."""
    bare = key.removeprefix("hardware.")
    if bare in KINDS or bare.startswith(OF_UEVENT):
        for file in _telling(where, upwards=key != bare and bare in KINDS):
            if why := host.trouble(file):
                return f"{file} cannot be read: {why}"
    if bare.startswith("udev.properties."):
        return host.trouble(where)
    if bare in _OF_LINEAGE:
        return _unread_driver(where, host)
    file = file_of(key, where)
    why = host.trouble(file) if file else ""
    return f"{file} cannot be read: {why}" if why else ""


def _telling(folder: str, *, upwards: bool) -> Iterator[str]:
    """Give the files that tell what kind of device it is, or what it sits on."""
    while folder.startswith("/sys/devices/"):
        yield f"{folder}/uevent"
        yield f"{folder}/subsystem"
        folder = folder.rpartition("/")[0] if upwards else ""


def _unread_driver(where: str, host: Host) -> str:
    device = host.device(where)
    for one in () if device is None else lineage(device, host):
        if why := host.trouble(f"{one.syspath}/driver"):
            return f"{one.syspath}/driver cannot be read: {why}"
        if one.driver:
            break
    return ""


def kind_of(candidates: Candidates) -> str:
    """Give the key that names the candidates."""
    match candidates:
        case PathSelector():
            return "path"
        case UdevSelector():
            return "udev"
        case PciSelector():
            return "pci"
        case NetSelector():
            return "net"
        case _:
            return "usb"


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
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Give the conditions of a selector for one device; ``sitting`` is what sits on it."""
    match selector:
        case UdevSelector():
            yield from _udev(selector, device, host, f"{prefix}udev")
        case UsbSelector():
            for name, globs in _named(selector):
                found = usb_text(device, name, host, sitting=sitting)
                one = usb_part(device, name, host, sitting=sitting)
                yield _condition(f"{prefix}usb.{name}", globs, found, one, hexadecimal=True)
        case PciSelector():
            for name, globs in _named(selector):
                found = pci_text(device, name, host)
                yield _condition(f"{prefix}pci.{name}", globs, found, device, hexadecimal=True)
        case NetSelector():
            for name, globs in _named(selector):
                found = net_text(device, name, host)
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
    selector: UdevSelector, device: SysDevice, host: Host, prefix: str
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
        yield _condition(f"{prefix}.driver", selector.driver, driver_of(device, host), device)
    for name, globs in selector.properties.items():
        found = device.properties.get(name)
        yield _condition(f"{prefix}.properties.{name}", globs, found, device)
    for name, globs in selector.attributes.items():
        found = host.attribute(device.syspath, name)
        yield _condition(f"{prefix}.attributes.{name}", globs, found, device)


def unmet(
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Give the conditions that do not hold; none if the selector takes the device."""
    asked = conditions(selector, device, host, prefix=prefix, sitting=sitting)
    return (one for one in asked if not one.holds)


def first_failure(
    selector: SysSelector, device: SysDevice, host: Host, *, sitting: SysDevice
) -> Condition | None:
    """Give the first condition that does not hold; None if the selector takes the device."""
    return next(unmet(selector, device, host, sitting=sitting), None)


def hardware_failure(hardware: Hardware, device: SysDevice, host: Host) -> Condition | None:
    """Give the first condition on what the device is or sits on that does not hold."""
    return next(unmet_hardware(hardware, device, host), None)


def unmet_hardware(hardware: Hardware, device: SysDevice, host: Host) -> Iterator[Condition]:
    """Give the conditions on what the device is or sits on that do not hold."""
    for selector, is_one, what in (
        (hardware.usb, is_usb_device, "usb"),
        (hardware.pci, is_pci_function, "pci"),
    ):
        if selector is None:
            continue
        below = nearest(device, host, is_one)
        if below is None:
            yield Condition(key=f"hardware.{what}", wanted=("*",), found=None, where=device.syspath)
        else:
            yield from unmet(selector, below, host, prefix="hardware.", sitting=device)
    if hardware.udev is not None:
        failure = _any_ancestor(hardware.udev, device, host)
        if failure is not None:
            yield failure


def _any_ancestor(selector: UdevSelector, device: SysDevice, host: Host) -> Condition | None:
    """All conditions must hold for one and the same ancestor; else give the best one's failure.

    Best is one that may take it after all, then the one of which most conditions hold.
    """
    furthest: tuple[int, Condition] | None = None
    for one in lineage(device, host):
        asked = list(conditions(selector, one, host, prefix="hardware.", sitting=device))
        failed = [i for i, condition in enumerate(asked) if not condition.holds]
        if not failed:
            return None
        held = failed[0]
        if all(why_unknown(asked[i], host) for i in failed):
            held = len(asked)
        if furthest is None or held > furthest[0]:
            furthest = (held, asked[failed[0]])
    return furthest[1] if furthest else None
