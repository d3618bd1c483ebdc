"""What ``genericdp discover --all`` prints: everything that a config could name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.hardware import is_usb_device
from genericdp.explain.catalog import candidate_count
from genericdp.explain.entry import listed
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.explain.catalog import Group, Run
    from genericdp.explain.entry import Entry

_BUS_FACTS = {
    "usb": ("vendor", "product", "serial", "class"),
    "pci": ("vendor", "device", "class", "driver", "function", "iommuGroup"),
}
_TOLD_OTHERWISE = (
    *("ID_BUS", "ID_FOR_SEAT", "ID_MM_", "ID_MODEL_ID", "ID_NET_DRIVER", "ID_PATH", "ID_REVISION"),
    *("ID_SERIAL_SHORT", "ID_TYPE", "ID_USB_", "ID_VENDOR_ID"),
)
"""Properties that a person gains nothing by: -o json has all."""


def as_text(groups: Sequence[Group]) -> Iterator[str]:
    """Give the lines: a block for each piece of hardware, then what has none, by subsystem."""
    for group in groups:
        yield _title(group)
        if group.itself is not None:
            yield from (f"    {line}" for line in _facts(group.itself.entries[0], {}))
            yield f"    - {group.itself.selector}{_remark(group.itself)}"
        known = {} if group.itself is None else group.itself.entries[0].properties
        for run in group.members:
            yield from _member(run, known)
        yield ""
    count = candidate_count(groups)
    yield f"{count} candidate{'' if count == 1 else 's'}; each line that begins with '-' is an"
    yield "entry for match. Facts of a device: genericdp explain, or -o json here."
    if any(map(_needs_inject, _runs(groups))):
        yield _INJECT


def _title(group: Group) -> str:
    hardware = group.hardware
    if hardware is None:
        return (
            f"Without hardware: {printable(group.subsystem)}" if group.subsystem else "Other files"
        )
    if group.itself is None:
        kind = "Platform device" if hardware.subsystem == "platform" else "Hardware"
        return f"{kind} {printable(hardware.name)}"
    entry = group.itself.entries[0]
    bus = "usb" if is_usb_device(hardware) else "pci"
    texts = entry.buses.get(bus, {})
    kind = {"usb": "USB device", "pci": "PCI function"}[bus]
    known = {key: texts[key] for key in _BUS_FACTS[bus] if key in texts}
    numa = f", NUMA node {','.join(map(str, entry.numa_nodes))}" if entry.numa_nodes else ""
    return f"{kind} {printable(hardware.name)}: {listed(known)}{numa}"


def _member(run: Run, known: Mapping[str, str]) -> Iterator[str]:
    first = run.entries[0]
    device = first.device
    names = _name(first)
    if len(run.entries) > 1:
        names = f"{names} … {_name(run.entries[-1])} ({len(run.entries)})"
    kinds = [] if device is None else [device.subsystem, device.devtype]
    if device is not None and device.number is not None and not first.has_node:
        kinds.append("no such file")
    kinds += [f"driver {first.driver}"] if first.driver else []
    kinds = [printable(one) for one in kinds if one]
    about = ", ".join([names, *kinds])
    facts = list(_facts(first, known))
    if first.place is None and not facts:
        # Of the many that every machine has, one line is enough.
        comment = about if len(run.entries) > 1 else ", ".join(kinds)
        comment = ", ".join(filter(None, [comment, "needs inject" * _needs_inject(run)]))
        yield f"  - {run.selector}{f'  # {comment}' if comment else ''}"
        return
    yield f"  {about}"
    yield from (f"    {line}" for line in facts)
    yield f"    - {run.selector}{_remark(run)}"


def _runs(groups: Sequence[Group]) -> Iterator[Run]:
    return (run for group in groups for run in (group.itself, *group.members) if run is not None)


def _needs_inject(run: Run) -> bool:
    device = run.entries[0].device
    return device is not None and device.number is None


def _remark(run: Run) -> str:
    return "  # needs inject" if _needs_inject(run) else ""


_INJECT = "What needs inject has no device file: say there what a container gets instead."


def _name(entry: Entry) -> str:
    device = entry.device
    return printable(device.name if device and device.number is None else entry.path)


def _facts(entry: Entry, known: Mapping[str, str]) -> Iterator[str]:
    """Give what the title and ``known``, the properties of the hardware, do not tell."""
    device = entry.device
    if device is not None and entry.has_node and device.subsystem in {"usb", "pci"}:
        yield f"file {printable(entry.path)}"
    if "net" in entry.buses:
        yield f"net {listed(entry.buses['net'])}"
    if entry.links:
        yield f"links {' '.join(map(printable, entry.links))}"
    properties = {
        key: text
        for key, text in entry.properties.items()
        if not key.startswith(_TOLD_OTHERWISE) and known.get(key) != text
    }
    if properties:
        yield f"properties {listed(properties)}"


def as_json(groups: Sequence[Group]) -> dict[str, object]:
    """Give every candidate with all of its facts."""
    return {
        "candidates": [
            {**entry.as_json(), "selector": run.selector}
            for group in groups
            for run in (group.itself, *group.members)
            if run is not None
            for entry in run.entries
        ]
    }
