"""``genericdp hardware``: the hardware of this machine, with selectors to copy into a config."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from genericdp.cli.output import print_result
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.root import root_of
from genericdp.devices.hardware import KINDS, kind_of
from genericdp.devices.inventory import Identity, Inventory
from genericdp.explain.catalog import catalogue
from genericdp.printing import plural
from genericdp.scalars import yaml_text
from genericdp.status import view

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.devices.inventory import SysDevice
    from genericdp.explain.catalog import CatalogGroup, Run
    from genericdp.explain.describe import Entry
    from genericdp.host.cache import HostCache

    Models = Mapping[str, str]
    """The name of each piece of hardware, by its path in sysfs."""

EXAMPLE = (
    "  genericdp hardware\n"
    "  genericdp hardware --root node.tar.gz   # of another machine, by its snapshot"
)


def execute(arguments: argparse.Namespace) -> int:
    """Print everything that a config could select; return 1 if something could not be read."""
    groups, models, hanging = run_skipping_hangs(root_of(arguments), _look)
    candidates = [
        {**entry.document, "model": _model(entry.device, models), "selector": run.selector}
        for run in _runs(groups)
        for entry in run.entries
    ]
    lines = chain(_as_text(groups, models), (f"Not read: {path}" for path in hanging))
    print_result({"candidates": candidates}, lines, arguments.output)
    return 1 if hanging else 0


def _look(host: HostCache) -> tuple[Sequence[CatalogGroup], Models, list[str]]:
    groups = catalogue(Inventory(host))
    devices = [entry.device for run in _runs(groups) for entry in run.entries]
    devices += [group.hardware for group in groups]
    paths = {device.syspath for device in devices if device is not None}
    models = {path: view.hardware_of(Identity(inode=0, syspath=path), host).model for path in paths}
    return groups, models, sorted(host.hanging)


def _model(device: SysDevice | None, models: Models) -> str:
    return "" if device is None else models[device.syspath]


def _runs(groups: Sequence[CatalogGroup]) -> Iterator[Run]:
    return (run for group in groups for run in (group.itself, *group.members) if run is not None)


def _as_text(groups: Sequence[CatalogGroup], models: Models) -> Iterator[str]:
    """Yield a block for each piece of hardware, then the devices without hardware, by subsystem."""
    for group in groups:
        yield _title(group, models)
        yield from (f"  - {run.selector}  # {_about(run, models)}" for run in _runs([group]))
        yield ""
    count = sum(len(run.entries) for run in _runs(groups))
    yield f"{plural(count, 'candidate')}; each line that begins with '-' is an"
    yield "entry for match. Facts of a device: genericdp explain, or -o json here."
    if any(_has_no_file(run.entries[0]) for run in _runs(groups)):
        yield "What needs inject has no device file: say there what a container gets instead."


def _title(group: CatalogGroup, models: Models) -> str:
    hardware = group.hardware
    if hardware is None:
        return f"Without hardware: {group.subsystem}" if group.subsystem else "Other files"
    if group.itself is None:
        kind = "Platform device" if hardware.subsystem == "platform" else "Hardware"
        return f"{kind} {hardware.name}"
    entry = group.itself.entries[0]
    bus = kind_of(hardware)
    texts = entry.buses.get(bus, {})
    facts = [f"{key} {yaml_text(texts[key])}" for key in KINDS[bus].shown if key in texts]
    if entry.numa_nodes:
        facts.append(f"NUMA node {','.join(map(str, entry.numa_nodes))}")
    model = models[hardware.syspath]
    # Without a database of names, a PCI function is shown with its IDs.
    ids = ":".join(texts.get(key, "") for key in KINDS[bus].model)
    named = "" if model in {"", ids} else f", {model}"
    return f"{KINDS[bus].noun} {hardware.name}{named}: {', '.join(facts)}"


def _about(run: Run, models: Models) -> str:
    """Return what a selector can compare: the device's names, its kind, and links to it."""
    first, device = run.entries[0], run.entries[0].device
    name = _name(first)
    if len(run.entries) > 1:
        name = f"{name} … {_name(run.entries[-1])} ({len(run.entries)})"
    facts = [name]
    model, of_hardware = _model(device, models), _model(first.place, models)
    # udev writes a name without blanks.
    if len(run.entries) == 1 and model.replace("_", " ") != of_hardware.replace("_", " "):
        facts.append(model)
    if device is not None:
        facts += filter(None, (device.subsystem, device.devtype))
        facts += ["no such file"] if device.number is not None and not first.has_node else []
    facts += [f"driver {first.driver}"] if first.driver else []
    facts += [f"links {' '.join(first.links)}"] if first.links else []
    facts += ["needs inject"] if _has_no_file(first) else []
    return ", ".join(facts)


def _has_no_file(entry: Entry) -> bool:
    return entry.device is not None and entry.device.number is None


def _name(entry: Entry) -> str:
    return entry.device.name if entry.device and _has_no_file(entry) else entry.path
