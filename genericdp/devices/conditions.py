"""The conditions of a selector, one after the other, with what was found and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.hardware import (
    BUSES,
    FILES,
    asked_part,
    bus_text,
    driver_of,
    lineage,
    nearest,
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
        """Return whether it does; without globs it asks for nothing."""
        if not self.wanted:
            return True
        return self.found is not None and glob.matches_any(
            self.wanted, self.found, ignore_case=self.ignore_case
        )


KINDS = frozenset({*BUSES, "udev"})
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
    """Yield the files that tell what kind of device it is, or what it sits on."""
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


_KINDS = {
    PathSelector: "path",
    UdevSelector: "udev",
    UsbSelector: "usb",
    PciSelector: "pci",
    NetSelector: "net",
}


def kind_of(candidates: Candidates) -> str:
    """Return the key that names the candidates."""
    return _KINDS[type(candidates)]


def is_candidate_of(selector: SysSelector, device: SysDevice) -> bool:
    """Return whether the selector looks at such devices at all."""
    if isinstance(selector, UdevSelector):
        return not selector.subsystem or glob.matches_any(selector.subsystem, device.subsystem)
    return BUSES[kind_of(selector)](device)


def subsystem_globs(selector: SysSelector) -> Globs:
    """Return the subsystems in which the selector's candidates are; empty: all."""
    return selector.subsystem if isinstance(selector, UdevSelector) else (kind_of(selector),)


def conditions(
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Yield the conditions of a selector for one device; ``sitting`` is what sits on it."""
    kind = kind_of(selector)
    if isinstance(selector, UdevSelector):
        for name, globs, found in _udev(selector, device, host):
            yield Condition(
                key=f"{prefix}udev.{name}", wanted=globs, found=found, where=device.syspath
            )
        return
    for field in selector.__dataclass_fields__:
        value = getattr(selector, field)
        name = _CAMEL.get(field, field)
        if value:
            yield Condition(
                key=f"{prefix}{kind}.{name}",
                wanted=(value,) if isinstance(value, str) else value,
                found=bus_text(kind, device, name, host, sitting=sitting),
                where=asked_part(kind, device, name, host, sitting).syspath,
                ignore_case=kind != "net" and name not in _TEXTS,
            )


_CAMEL = {
    "subsystem_vendor": "subsystemVendor",
    "subsystem_device": "subsystemDevice",
    "iommu_group": "iommuGroup",
    "link_type": "linkType",
    "device_class": "class",
}
_TEXTS = {"serial", "port", "name", "driver"}
"""Of the others, hexadecimal ids compare without case."""


def _udev(
    selector: UdevSelector, device: SysDevice, host: Host
) -> Iterator[tuple[str, Globs, str | None]]:
    """Yield name, globs and what was found of what a selector asks for."""
    if selector.subsystem:
        yield "subsystem", selector.subsystem, device.subsystem or None
    if selector.devtype:
        yield "devtype", selector.devtype, device.devtype or None
    if selector.name:
        yield "name", selector.name, device.name
    if selector.driver:
        yield "driver", selector.driver, driver_of(device, host)
    for name, globs in selector.properties.items():
        yield f"properties.{name}", globs, device.properties.get(name)
    for name, globs in selector.attributes.items():
        yield f"attributes.{name}", globs, host.attribute(device.syspath, name)


def unmet(
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Yield the conditions that do not hold; none if the selector takes the device."""
    asked = conditions(selector, device, host, prefix=prefix, sitting=sitting)
    return (one for one in asked if not one.holds)


def unmet_hardware(
    hardware: Hardware, device: SysDevice | None, host: Host, where: str = ""
) -> Iterator[Condition]:
    """Yield the conditions on what the device is or sits on that do not hold.

    ``where``: what was asked if sysfs knows nothing of it.
    """
    if device is None:
        if hardware.usb or hardware.pci or hardware.udev:
            yield Condition(key="hardware", wanted=("*",), found=None, where=where)
        return
    for selector, bus in ((hardware.usb, "usb"), (hardware.pci, "pci")):
        if selector is None:
            continue
        below = nearest(device, host, BUSES[bus])
        if below is None:
            yield Condition(key=f"hardware.{bus}", wanted=("*",), found=None, where=device.syspath)
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
