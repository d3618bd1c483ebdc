"""Facts of devices in words."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.capacity import quantity
from genericdp.devices.hardware import (
    BUSES,
    HARDWARE,
    KINDS,
    driver_of,
    function_of,
    is_usb_interface,
    kind_of,
    nearest,
    source_device,
    text_of,
)
from genericdp.devices.resourcenames import label
from genericdp.devices.selectors import shown
from genericdp.devices.topology import spot_of
from genericdp.model import AttributeType, FileType
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from genericdp.devices.attributes import AttributeValue
    from genericdp.devices.device import Device
    from genericdp.devices.inventory import Candidate, Host, Inventory, SysDevice
    from genericdp.model import Parameter
    from genericdp.status import view

_MAX_SHARES = 3
_NEITHER = re.compile(r"_ENC$|_FROM_DATABASE$|_TAG$")
_TYPES = {
    FileType.CHAR: "character device",
    FileType.BLOCK: "block device",
    FileType.DIRECTORY: "directory",
    FileType.FILE: "file, no device",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """The facts of a device; those that it lacks are empty."""

    path: str
    """Its device file, else its directory in sysfs."""
    what: str
    device: SysDevice | None = None
    has_node: bool = False
    links: tuple[str, ...] = ()
    driver: str = ""
    numa_nodes: tuple[int, ...] = ()
    buses: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The values of ``usb``, ``pci`` and ``net``: its own or of a parent."""
    place: SysDevice | None = None
    """The USB device, PCI function or platform device that it is or is attached to."""

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
        """Yield names and human-readable values."""
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

    @property
    def document(self) -> view.Document:
        """The facts for ``-o json``."""
        device = self.device
        return {
            "path": printable(self.path),
            "deviceFile": self.has_node,
            "links": list(map(printable, self.links)),
            "syspath": printable(device.syspath) if device else "",
            "subsystem": printable(device.subsystem) if device else "",
            "devtype": printable(device.devtype) if device else "",
            "name": printable(device.name) if device else "",
            "driver": printable(self.driver),
            **{bus: _plain(self.buses.get(bus)) for bus in BUSES},
            "properties": _plain(self.properties),
            "tags": sorted(map(printable, device.tags)) if device else [],
            "numaNodes": list(self.numa_nodes),
        }


def _plain(texts: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if texts is None else {key: printable(text) for key, text in texts.items()}


def listed(texts: Mapping[str, str]) -> str:
    """Return names and values on one line."""
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
    if (bus := kind_of(device)) in BUSES:
        return f"a {KINDS[bus].noun}"
    if is_usb_interface(device):
        return "an interface of a USB device"
    kind = device.devtype or device.subsystem
    if not kind:
        return "a device of no known kind"
    article = "an" if kind[:1] in "aeiou" else "a"
    return f"{article} {printable(kind)} device"


def buses_of(device: SysDevice, host: Host) -> dict[str, dict[str, str]]:
    """Return the values that ``usb``, ``pci`` and ``net`` selectors can use, each from the
    nearest device.
    """
    found: dict[str, dict[str, str]] = {}
    for bus, is_one in BUSES.items():
        if (nearest_device := nearest(device, host, is_one)) is not None:
            keys = KINDS[bus].keys
            sources = {key: source_device(bus, nearest_device, key, host, device) for key in keys}
            texts = {key: text_of(bus, source, key, host) for key, source in sources.items()}
            found[bus] = {key: text for key, text in texts.items() if text}
    return found


def hardware_ids(buses: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    """Return the IDs of the USB device, else the PCI function, as a value of ``hardware``."""
    for bus, kind in HARDWARE.items():
        texts = buses.get(bus, {})
        if all(texts.get(key) for key in kind.model):
            return {bus: {key: as_glob(texts[key]) for key in kind.model}}
    return {}


def as_glob(text: str) -> str:
    """Return a glob for exactly this text; a byte that no config can hold may be any."""
    escaped = glob.escape(text)
    return "".join("?" if "\ud800" <= character <= "\udfff" else character for character in escaped)


def claim_lines(device: Device) -> Iterator[tuple[str, str]]:
    """Yield names and values that claims see for a device; nothing unless DRA serves it."""
    if not device.is_served_by_dra:
        return
    shares = device.shares
    more = f" and {len(shares) - _MAX_SHARES:,} more" if len(shares) > _MAX_SHARES else ""
    yield "in slices", f"{', '.join(map(label, shares[:_MAX_SHARES]))}{more}"
    attributes = device.attributes.items()
    yield "attributes", ", ".join(f"{name} {_as_cel(value)}" for name, value in attributes)
    for name, value in attributes:
        if value.note:
            yield name, f"is {_as_cel(value)}: {value.note}"
    if device.metadata:
        yield "metadata", "containers can read them in a file"
    if device.parameters:
        yield "parameters", "; ".join(starmap(_parameter, device.parameters.items()))
    yield from _capacity_lines(device)


def _capacity_lines(device: Device) -> Iterator[tuple[str, str]]:
    capacity = device.capacity.items()
    amounts = [f"{name} {quantity(value.amount)}" for name, value in capacity if value.amount]
    if amounts:
        yield "capacity", f"{', '.join(amounts)}{', shared' * device.shares_capacity}"
    for name, value in capacity:
        if value.note:
            yield name, f"is not known: {value.note}"


def _parameter(name: str, parameter: Parameter) -> str:
    default = f"default {json.dumps(parameter.default, ensure_ascii=False)}"
    return f"{name} {'required' if parameter.default is None else default}: {parameter}"


def _as_cel(value: AttributeValue) -> str:
    """Return a value in the form that expressions in claims compare."""
    text = json.dumps(value.value, ensure_ascii=False)
    return f"semver({text})" if value.type is AttributeType.VERSION else text
