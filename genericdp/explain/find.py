"""Lookup of a device by a path, an address, a port, or a name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.hardware import BUSES, function_of
from genericdp.devices.inventory import NODE_TYPES, Candidate, natural_key
from genericdp.model import FileType, PathSelector
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.devices.inventory import Inventory, SysDevice
    from genericdp.model import Resource

_PCI_ADDRESS = re.compile(r"([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_IDS = re.compile(r"(?:0[xX])?[0-9A-Fa-f]{4}:(?:0[xX])?[0-9A-Fa-f]{4}")
_ID_FILES = {"usb": ("idVendor", "idProduct"), "pci": ("vendor", "device")}
_DEVICES = "/sys/devices/"
_MAX_NEAR = 5
_LIKE = 0.7
"""How similar the names of device files must be, as difflib measures it."""
_PREFIX = 3
_NUMBER = re.compile(r"\[[^]]*\]|[*?0-9]")
"""The part of a name or glob that is ignored when names are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The device asked about."""

    text: str
    """As it was written."""
    candidate: Candidate

    @property
    def shown(self) -> str:
        """The text, printable."""
        return printable(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """A string that names no device of the host."""

    text: str
    tried: tuple[str, ...]
    """Sentences about what was searched for, or what to write instead."""
    reason: str = "there is no such device on this host"
    near: tuple[str, ...] = ()
    """Similar names that exist; of a resource, IDs of its devices."""
    is_resource: bool = False
    """Whether it is the name of a resource."""


def find(text: str, inventory: Inventory) -> Asked | Unknown:
    """Return the device that a string names."""
    tried: list[str] = []
    ways = _by_path if text.startswith("/") else _by_name
    for what, candidate in ways(text, inventory):
        if candidate is not None:
            return Asked(text=text, candidate=candidate)
        tried.append(what)
    return Unknown(text=text, tried=tuple(tried), near=_near(text, inventory))


def refuse_plain(
    asked: Asked, resources: Sequence[Resource], inventory: Inventory
) -> Asked | Unknown:
    """Return Unknown for a plain file or directory whose path or type no selector matches.

    In a copy of a machine without sysfs, any file may represent a device.
    """
    file = asked.candidate.file
    wanted = (selector.candidates for resource in resources for selector in resource.match)
    types = {
        type_
        for selector in wanted
        if isinstance(selector, PathSelector)
        for type_ in selector.types
    }
    is_device = asked.candidate.device is not None or file.type in {*NODE_TYPES, *types}
    if is_device or awaited_by(file.path, resources) or not inventory.host.subsystems():
        return asked
    kind = "directory" if file.type is FileType.DIRECTORY else "plain file"
    give = (
        "give a device file, the directory of a device in /sys, a PCI address (03:00.0), a USB port"
        " (1-1.4) or a network interface",
        f"a config can offer a {kind} by its path and type: {file.type}; this one does not",
    )
    return Unknown(text=asked.text, tried=give, reason=f"it is a {kind}, not a device")


def awaited_by(text: str, resources: Iterable[Resource]) -> tuple[str, ...]:
    """Return which selectors would read a path if it existed, as sentences."""
    return tuple(
        f"match[{i}] of {resource.name} reads it as soon as it exists"
        for resource in resources
        for i, selector in enumerate(resource.match)
        if isinstance(selector.candidates, PathSelector)
        and any(_is_path_of(pattern, text) for pattern in selector.candidates.globs)
    )


def _is_path_of(pattern: str, path: str) -> bool:
    segments, parts = pattern.split("/"), path.split("/")
    return len(segments) == len(parts) and all(map(glob.matches, segments, parts))


def _by_path(text: str, inventory: Inventory) -> Iterator[tuple[str, Candidate | None]]:
    path = "/" + "/".join(part for part in text.split("/") if part not in {"", "."})
    if ".." in path.split("/"):
        yield f"{printable(text)} holds '..': write the path without", None
        return
    found = inventory.file(path)
    device = None if found is None else _device_of_directory(found.target, inventory)
    if device is not None:
        yield f"{device.syspath} disappeared while it was read", inventory.of_device(device)
    elif found is not None:
        yield "", inventory.of_file(found)
    elif glob.escape(path) in inventory.hanging:
        yield f"reading {printable(path)} timed out", None
    else:
        yield f"there is no {printable(path)}, or it is a link that leads nowhere", None
        # Its file may be missing only here, as in a container with a /dev of its own.
        named = (
            device for device in every(inventory) if path in (device.device_file, *device.links)
        )
        yield "no device of sysfs has such a file", _first(named, inventory)


def _device_of_directory(directory: str, inventory: Inventory) -> SysDevice | None:
    """Return the device of a directory or attribute file of sysfs."""
    while directory.startswith(_DEVICES):
        if (device := inventory.host.device(directory)) is not None:
            return device
        directory = directory.rpartition("/")[0]
    return None


def _by_name(text: str, inventory: Inventory) -> Iterator[tuple[str, Candidate | None]]:
    name = printable(text)
    if _PCI_ADDRESS.fullmatch(text):
        address = text.lower() if text.count(":") == 2 else f"0000:{text.lower()}"
        yield f"no PCI function has the address {address}", _named("pci", address, inventory)
        return
    if _IDS.fullmatch(text):
        yield f"no USB device or PCI function has the numbers {name}", _by_ids(text, inventory)
        return
    yield f"no USB device is at a port {name}", _named("usb", text, inventory)
    yield f"no network interface is called {name}", _named("net", text, inventory)
    if "/" not in text.strip("/"):
        file = inventory.file(f"/dev/{text}")
        yield f"there is no /dev/{name}", None if file is None else inventory.of_file(file)
    anything = (device for device in every(inventory) if device.name == text)
    yield f"the kernel calls no device {name}", _first(anything, inventory)


def _by_ids(text: str, inventory: Inventory) -> Candidate | None:
    """Return the first USB device or PCI function with a VENDOR:PRODUCT as lsusb and lspci show."""
    wanted = [number.removeprefix("0x") for number in text.lower().split(":")]
    for subsystem, names in _ID_FILES.items():
        for device in inventory.host.members(subsystem):
            found = [inventory.host.attribute(device.syspath, name) or "" for name in names]
            if [number.lower().removeprefix("0x") for number in found] == wanted:
                return inventory.of_device(device)
    return None


def _named(subsystem: str, name: str, inventory: Inventory) -> Candidate | None:
    members = inventory.host.members(subsystem)
    return _first((member for member in members if member.name == name), inventory)


def _first(devices: Iterable[SysDevice], inventory: Inventory) -> Candidate | None:
    found = (inventory.of_device(device) for device in devices)
    return next((device for device in found if device is not None), None)


def every(inventory: Inventory) -> Iterator[SysDevice]:
    """Yield every device that belongs to a bus or class."""
    for subsystem in inventory.host.subsystems():
        yield from inventory.host.members(subsystem)


def names_in_other_case(pattern: str, inventory: Inventory) -> str:
    """Return a device file that a case-insensitive glob would find, or an empty string."""
    directory, _, name = pattern.rpartition("/")
    for file in inventory.found(f"{directory}/*"):
        own = file.path.rpartition("/")[2]
        if glob.matches_any([name], own, ignore_case=True):
            return printable(file.path)
    return ""


def names_like(pattern: str, inventory: Inventory) -> tuple[str, ...]:
    """Return device files of a glob's directory whose names differ from it only in the number.

    Then those on hardware whose names begin alike: for ttyUSB0 that is ttyACM0, never tty60.
    """
    directory, _, name = pattern.rpartition("/")
    stem = _stem(name)
    alike: dict[str, list[str]] = {}
    begin_alike: list[str] = []
    for file in inventory.found(f"{directory}/*"):
        if file.type not in NODE_TYPES:
            continue
        its_stem = _stem(file.path.rpartition("/")[2])
        alike.setdefault(its_stem, []).append(file.path)
        # Not for links: those of udev all begin with the bus.
        if stem[:_PREFIX] == its_stem[:_PREFIX] and len(stem) > _PREFIX and not file.is_link:
            device = inventory.of_file(file).device
            if device is not None and function_of(device, inventory.host) is not None:
                begin_alike.append(file.path)
    close = get_close_matches(stem, alike, n=_MAX_NEAR, cutoff=_LIKE) if stem else []
    near = [path for name in close for path in sorted(alike[name], key=natural_key)]
    near += sorted(begin_alike, key=natural_key)
    return tuple(map(printable, dict.fromkeys(near)))[:_MAX_NEAR]


def _stem(name: str) -> str:
    return _NUMBER.sub("", name)


def _near(text: str, inventory: Inventory) -> tuple[str, ...]:
    pattern = glob.escape(text)
    if ".." in text.split("/"):
        return ()
    if text.startswith("/") and inventory.found(f"{pattern.rpartition('/')[0]}/*"):
        return names_like(pattern, inventory)
    known = filter(is_worth_naming, every(inventory))
    names = {device.device_file if text.startswith("/") else device.name for device in known}
    close = get_close_matches(text, sorted(names, key=natural_key), n=_MAX_NEAR, cutoff=0.6)
    return tuple(map(printable, close))


def is_worth_naming(device: SysDevice) -> bool:
    """Return whether a device is worth offering: hardware, or a device with a file."""
    return device.number is not None or any(is_one(device) for is_one in BUSES.values())
