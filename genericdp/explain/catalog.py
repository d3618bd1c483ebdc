"""All devices of the host that a config can name, by hardware, with a selector for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.hardware import KINDS, is_hardware, kind_of
from genericdp.devices.inventory import NODE_TYPES, natural_key
from genericdp.explain.describe import Entry, as_glob, entry_of, hardware_ids
from genericdp.explain.find import every, is_worth_naming
from genericdp.scalars import yaml_flow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.devices.inventory import FoundFile, Inventory, SysDevice

_DEV = ("/dev/*", "/dev/*/*", "/dev/*/*/*")
_NOT_FOR_PODS = ("/dev/pts/", "/dev/char/", "/dev/block/")
_OF_WHO_ASKS = {"/dev/stdin", "/dev/stdout", "/dev/stderr"}
"""Links to the files that this process has open."""
_DIGITS = re.compile(r"[0-9]+")
_FEWEST_RUN = 3


Kinds = dict[tuple[str, str], set[tuple[str, str]]]
"""The kinds of devices, as type and name without numbers, by hardware and subsystem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Entries that differ only in their number; usually a single one."""

    entries: tuple[Entry, ...]
    selector: str
    """A selector that matches them, as YAML on one line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogGroup:
    """The entries of a piece of hardware, or of a subsystem without hardware."""

    hardware: SysDevice | None
    itself: Run | None
    """The hardware itself as a candidate."""
    members: tuple[Run, ...]
    subsystem: str = ""


def catalogue(inventory: Inventory) -> tuple[CatalogGroup, ...]:
    """Return every candidate of the host that a config can name, once."""
    entries: dict[tuple[str, str], list[Entry]] = {}
    kinds: Kinds = {}
    for entry in _entries(inventory):
        place = "" if entry.place is None else entry.place.syspath
        # Devices without hardware are grouped by subsystem.
        subsystem = "" if place or entry.device is None else entry.device.subsystem or "?"
        entries.setdefault((place, subsystem), []).append(entry)
        if entry.device is not None:
            kind = entry.device.devtype, _stem(entry.device.name)
            kinds.setdefault(_surroundings(entry), set()).add(kind)

    def order(key: tuple[str, str]) -> tuple[object, ...]:
        return not key[0], natural_key(key[0]), not key[1], natural_key(key[1])

    return tuple(_group(entries[key], key[1], kinds) for key in sorted(entries, key=order))


def _entries(inventory: Inventory) -> Iterator[Entry]:
    files = _device_files(inventory)
    seen: set[str] = set()
    for device in every(inventory):
        if not is_worth_naming(device) or device.key in seen:
            continue
        candidate = inventory.of_device(device)
        if candidate is not None:
            seen.add(device.key)
            yield entry_of(candidate, inventory, _links(files.get(device.key, ())))
    for key, found in files.items():
        if key not in seen:
            real = [file for file in found if not file.is_link]
            candidate = inventory.of_file((real or found)[0])
            yield entry_of(candidate, inventory, _links(found))


def _device_files(inventory: Inventory) -> dict[str, list[FoundFile]]:
    files: dict[str, list[FoundFile]] = {}
    for pattern in _DEV:
        for file in inventory.found(pattern):
            hidden = file.path.startswith(_NOT_FOR_PODS) or file.target.startswith(_NOT_FOR_PODS)
            hidden = hidden or file.path in _OF_WHO_ASKS
            if file.type in NODE_TYPES and not hidden:
                files.setdefault(file.key, []).append(file)
    return files


def _links(files: Iterable[FoundFile]) -> list[str]:
    return [file.path for file in files if file.is_link]


def _group(entries: list[Entry], subsystem: str, kinds: Kinds) -> CatalogGroup:
    itself = next((entry for entry in entries if _is_place(entry)), None)
    members = sorted((entry for entry in entries if entry is not itself), key=_member_order)
    return CatalogGroup(
        hardware=entries[0].place,
        itself=None if itself is None else _run([itself], kinds),
        members=tuple(_runs(members, kinds)),
        subsystem=subsystem,
    )


def _is_place(entry: Entry) -> bool:
    device = entry.device
    return device is not None and is_hardware(device)


def _surroundings(entry: Entry) -> tuple[str, str]:
    """Return what a selector without a name can compare: hardware and subsystem."""
    subsystem = "" if entry.device is None else entry.device.subsystem
    return yaml_flow(hardware_ids(entry.buses)), subsystem


def _member_order(entry: Entry) -> tuple[object, ...]:
    return "" if entry.device is None else entry.device.subsystem, natural_key(entry.path)


def _runs(members: list[Entry], kinds: Kinds) -> Iterator[Run]:
    alike: dict[object, list[Entry]] = {}
    for i, entry in enumerate(members):
        plain = entry.device is not None and not entry.links and not entry.properties
        alike.setdefault(_likeness(entry) if plain else i, []).append(entry)
    for run in alike.values():
        if len(run) >= _FEWEST_RUN:
            yield _run(run, kinds)
        else:
            yield from (_run([entry], kinds) for entry in run)


def _likeness(entry: Entry) -> tuple[str, ...]:
    device = entry.device
    kind = ("", "") if device is None else (device.subsystem, device.devtype)
    return (*kind, entry.driver, _stem(entry.path), str(entry.has_node), str(entry.numa_nodes))


def _stem(name: str) -> str:
    """Return a glob for all names that differ in their numbers only."""
    pieces = _DIGITS.split(name)
    return "[0-9]*".join(map(as_glob, pieces))


def _run(entries: list[Entry], kinds: Kinds) -> Run:
    keys = _selector(entries[0], kinds, several=len(entries) > 1)
    return Run(entries=tuple(entries), selector=yaml_flow(keys))


def _selector(entry: Entry, kinds: Kinds, *, several: bool) -> dict[str, object]:
    device = entry.device
    hardware = hardware_ids(entry.buses)
    name = "" if device is None else kind_of(device)
    if name in hardware:
        return hardware
    if device is not None and not KINDS[name].has_node:
        kind, texts = KINDS[name], entry.buses.get(name, {})
        if hardware and (type_ := texts.get(kind.type_key)):
            return {name: {kind.type_key: as_glob(type_)}, "hardware": hardware}
        return {name: {kind.single[0]: as_glob(device.name)}}
    if device is None or not hardware or not device.subsystem:
        return {"path": _stem(entry.path) if several else as_glob(entry.path)}
    udev = {"subsystem": as_glob(device.subsystem)}
    if len(kinds[_surroundings(entry)]) > 1:
        udev |= {"name": _stem(device.name)}
        udev |= {"devtype": as_glob(device.devtype)} if device.devtype else {}
    return {"udev": udev, "hardware": hardware}
