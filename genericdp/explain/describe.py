"""Facts of devices, selectors and failed conditions in words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.config.scalars import yaml_mapping
from genericdp.devices.conditions import KINDS, OF_UEVENT, file_of, kind_of, why_unknown
from genericdp.devices.hardware import (
    BUSES,
    driver_of,
    function_of,
    is_net_interface,
    is_pci_function,
    is_usb_device,
    is_usb_interface,
    nearest,
    text_of,
)
from genericdp.devices.topology import spot_of
from genericdp.model import BUS_KEYS, FileType, PathSelector, config_key
from genericdp.printing import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from genericdp.devices.conditions import Condition
    from genericdp.devices.inventory import Host, Inventory, SysDevice
    from genericdp.devices.matching import Candidate
    from genericdp.model import Candidates, Globs, Selector

NOUNS = {
    "usb": "USB device",
    "pci": "PCI function",
    "net": "network interface",
    "udev": "sysfs device",
}

_MAX_SHOWN = 81
_NEITHER = re.compile(r"_ENC$|_FROM_DATABASE$|_TAG$")
_TYPES = {
    FileType.CHAR: "character device",
    FileType.BLOCK: "block device",
    FileType.DIRECTORY: "folder",
    FileType.FILE: "file, no device",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """The facts of a device; texts that it lacks are empty."""

    path: str
    """Its device file, else its folder in sysfs."""
    what: str
    device: SysDevice | None = None
    has_node: bool = False
    links: tuple[str, ...] = ()
    driver: str = ""
    numa_nodes: tuple[int, ...] = ()
    buses: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The texts of ``usb``, ``pci`` and ``net``: of itself or what it sits on."""
    place: SysDevice | None = None
    """The USB device, PCI function or platform device that it is or sits on."""

    @property
    def properties(self) -> dict[str, str]:
        """Its udev properties, without those that repeat others for machines."""
        known = {} if self.device is None else self.device.properties
        return {
            key: text
            for key, text in sorted(known.items())
            if key.startswith("ID_") and not _NEITHER.search(key)
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield names and texts for people."""
        if self.links:
            yield "links", " ".join(map(printable, self.links))
        device = self.device
        if device is None:
            return
        yield "sysfs", printable(device.syspath)
        if self.driver:
            yield "driver", printable(self.driver)
        own = {"subsystem": device.subsystem, "devtype": device.devtype, "name": device.name}
        yield "udev", listed({key: text for key, text in own.items() if text})
        for bus, texts in self.buses.items():
            yield bus, listed(texts)
        if self.properties:
            yield "properties", listed(self.properties)
        if device.tags:
            yield "tags", " ".join(map(printable, sorted(device.tags)))
        if self.numa_nodes:
            yield "NUMA node", ",".join(map(str, self.numa_nodes))

    def as_json(self) -> dict[str, object]:
        """Return the facts as plain data."""
        device = self.device
        return {
            "path": printable(self.path),
            "deviceFile": self.has_node,
            "links": list(map(printable, self.links)),
            "syspath": device and printable(device.syspath),
            "subsystem": device and printable(device.subsystem),
            "devtype": device and printable(device.devtype),
            "name": device and printable(device.name),
            "driver": printable(self.driver),
            **{bus: _plain(self.buses.get(bus)) for bus in BUS_KEYS},
            "properties": _plain(self.properties),
            "tags": sorted(map(printable, device.tags)) if device else [],
            "numaNodes": list(self.numa_nodes),
        }


def _plain(texts: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if texts is None else {key: printable(text) for key, text in texts.items()}


def listed(texts: Mapping[str, str]) -> str:
    """Return names and texts on one line."""
    return ", ".join(f"{printable(key)} {shown(text)}" for key, text in texts.items())


def entry_of(candidate: Candidate, inventory: Inventory, also_linked: Iterable[str] = ()) -> Entry:
    """Return the facts of a candidate; ``also_linked`` are links that udev did not record."""
    device, host, file = candidate.device, inventory.host, candidate.file
    known = _TYPES[file.type]
    if (number := file.identity.device_number) is not None:
        known = f"{known} {number[0]}:{number[1]}"
    path = file.target if candidate.has_node else candidate.path
    links = {*also_linked, *([file.path] if candidate.has_node and file.is_link else [])}
    if device is None:
        links_ = tuple(sorted(links))
        return Entry(path=path, what=f"a {known}", has_node=candidate.has_node, links=links_)
    what = what_it_is(device)
    if candidate.has_node:
        what = f"{what} ({known})"
    elif device.number is not None:
        path = device.device_file
        what = f"{what} (its device file {printable(path)} is not there)"
    return Entry(
        path=path,
        what=what,
        device=device,
        has_node=candidate.has_node,
        links=tuple(sorted({*links, *device.links})),
        driver=driver_of(device, host) or "",
        numa_nodes=spot_of((device,), host).numa_nodes,
        buses=buses_of(device, host),
        place=function_of(device, host),
    )


def what_it_is(device: SysDevice) -> str:
    """Return what kind of device it is, with an article."""
    if is_usb_device(device):
        return "a USB device"
    if is_usb_interface(device):
        return "an interface of a USB device"
    if is_pci_function(device):
        return "a PCI function"
    if is_net_interface(device):
        return "a network interface"
    kind = device.devtype or device.subsystem
    if not kind:
        return "a device of no known kind"
    article = "an" if kind[:1] in "aeiou" else "a"
    return f"{article} {printable(kind)} device"


def buses_of(device: SysDevice, host: Host) -> dict[str, dict[str, str]]:
    """Return what ``usb``, ``pci`` and ``net`` selectors can ask for, each of the nearest one."""
    found: dict[str, dict[str, str]] = {}
    for bus, keys in BUS_KEYS.items():
        if (one := nearest(device, host, BUSES[bus])) is not None:
            texts = {key: text_of(bus, one, key, host, sitting=device) for key in keys}
            found[bus] = {key: text for key, text in texts.items() if text}
    return found


def hardware_ids(buses: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    """Return the IDs of the USB device, else the PCI function, as a value of ``hardware``."""
    for bus, keys in (("usb", ("vendor", "product")), ("pci", ("vendor", "device"))):
        texts = buses.get(bus, {})
        if all(texts.get(key) for key in keys):
            return {bus: {key: as_glob(texts[key]) for key in keys}}
    return {}


def as_glob(text: str) -> str:
    """Return a glob for exactly this text; a byte that no config can hold may be any."""
    escaped = glob.escape(text)
    return "".join("?" if "\ud800" <= one <= "\udfff" else one for one in escaped)


def shown(text: str) -> str:
    """Return a text of the host on one line, shortened if it is long."""
    return shortened(printable(text), _MAX_SHOWN)


def selector_text(selector: Selector) -> str:
    """Return a selector as it can be written in a config, on one line."""
    keys: dict[str, object] = {kind_of(selector.candidates): _keys_of(selector.candidates)}
    if isinstance(selector.candidates, PathSelector):
        keys = {"path": _one_or_list(selector.candidates.globs)}
        if selector.candidates.types != PathSelector(globs=()).types:
            keys["type"] = _one_or_list(tuple(map(str, selector.candidates.types)))
    hardware = {
        bus: _keys_of(wanted)
        for bus in ("usb", "pci", "udev")
        if (wanted := getattr(selector.hardware, bus)) is not None
    }
    if hardware:
        keys["hardware"] = hardware
    if selector.values:
        keys["values"] = {name: _one_or_list(globs) for name, globs in selector.values.items()}
    return yaml_mapping(keys)


def _keys_of(candidates: Candidates) -> dict[str, object]:
    keys: dict[str, object] = {}
    for attribute in candidates.__dataclass_fields__:
        value = getattr(candidates, attribute)
        if not value:
            continue
        name = config_key(attribute)
        if isinstance(value, (str, tuple)):
            keys[name] = value if isinstance(value, str) else _one_or_list(value)
        else:
            keys[name] = {key: _one_or_list(globs) for key, globs in value.items()}
    return keys


def _one_or_list(globs: Globs) -> object:
    return globs[0] if len(globs) == 1 else list(globs)


def any_of(texts: Iterable[str]) -> str:
    """Join alternatives."""
    return " or ".join(map(shown, texts))


def source(condition: Condition) -> str:
    """Return where the value was read."""
    if condition.key.removeprefix("hardware.").startswith("udev.properties."):
        return f"the properties that udev and the kernel tell of {condition.where}"
    return file_of(condition.key, condition.where) or condition.where


def complaint(condition: Condition, host: Host) -> str:
    """Return a failed condition in words: ``wants usb.vendor 0403, found 1a86``."""
    key = condition.key
    bus = key.removeprefix("hardware.")
    unknown = why_unknown(condition, host)
    if unknown and (bus in KINDS or bus.startswith(OF_UEVENT)):
        return f"wants {key}, but {unknown}"
    if key == "hardware":
        return "wants hardware, but sysfs knows nothing of it"
    if key == "path":
        return f"looks at {any_of(condition.wanted)}, which does not name it"
    if bus in NOUNS:
        return "".join(_about_kind(condition, bus))
    wants = f"wants {key} {any_of(condition.wanted)}"
    if unknown or condition.why:
        return f"{wants}, but {printable(unknown or condition.why)}"
    if condition.found is not None:
        cased = glob.matches_any(condition.wanted, condition.found, ignore_case=True)
        but = " (upper and lower case count here)" if cased else ""
        return f"{wants}, found {shown(condition.found) or 'an empty text'}{but}"
    return f"{wants}, but it has none"


def _about_kind(condition: Condition, bus: str) -> Iterator[str]:
    noun = NOUNS[bus]
    if condition.key != bus:
        yield f"wants {condition.key}, but it is no {noun} and does not sit on one"
    elif condition.found is None:
        yield f"takes {noun}s, but sysfs knows nothing of it"
    else:
        yield f"takes {noun}s, but it is {condition.found}"
