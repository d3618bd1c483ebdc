"""Candidates: what the selectors of a resource look at and take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.conditions import (
    Condition,
    first_failure,
    hardware_failure,
    is_candidate_of,
    subsystem_globs,
)
from genericdp.devices.inventory import NODE_TYPES
from genericdp.devices.lookup import Names
from genericdp.model import PathSelector, UdevSelector
from genericdp.natural import natural_key
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.devices.conditions import SysSelector
    from genericdp.devices.inventory import FoundFile, Inventory
    from genericdp.devices.sysdevice import Facts, SysDevice
    from genericdp.model import Resource, Selector


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One thing of the host under all the names that the selectors found it by."""

    path: str
    """The first link in natural order if a glob found one, else the device file or path; the
    folder in sysfs of what has no device file."""
    file: FoundFile
    device: SysDevice | None = None
    """What sysfs knows of it."""
    needs_node: bool = False
    """Whether it was selected as something that has a device file."""

    @property
    def key(self) -> str:
        """Equal for all names of one thing."""
        return self.file.key

    @property
    def has_node(self) -> bool:
        """Whether it has a device file."""
        return self.file.type in NODE_TYPES


def taken(
    selectors: Iterable[Selector], resource: Resource, inventory: Inventory, node_name: str
) -> list[Candidate]:
    """Give what any of the selectors takes, each thing once, in natural order of its path."""
    names: dict[str, list[Candidate]] = {}
    for selector in selectors:
        for candidate in seen(selector, inventory):
            if failure(selector, candidate, resource, inventory, node_name) is None:
                names.setdefault(candidate.key, []).append(candidate)
    candidates = (_under_one_name(several) for several in names.values())
    return sorted(candidates, key=lambda one: natural_key(one.path))


def _under_one_name(candidates: list[Candidate]) -> Candidate:
    if len(candidates) == 1:
        return candidates[0]

    def rank(one: Candidate) -> tuple[object, ...]:
        # A name that may be handed out counts before one that may not, a link before a node.
        return bool(one.file.trouble), not one.file.is_link, natural_key(one.path)

    return min(candidates, key=rank)


def seen(selector: Selector, inventory: Inventory) -> Iterator[Candidate]:
    """Give the candidates that a selector looks at; those of sysfs fit it, but for values."""
    candidates = selector.candidates
    if isinstance(candidates, PathSelector):
        yield from _by_path(candidates, inventory)
        return
    needs_node = isinstance(candidates, UdevSelector)
    for subsystem in _subsystems(subsystem_globs(candidates), inventory):
        for device in inventory.facts.members(subsystem):
            if inventory.facts.awaited(device.syspath):
                continue
            # What is known of it first: a device file need not be looked at for nothing.
            if _may_be(selector, candidates, device, inventory.facts):
                candidate = of_device(device, inventory)
                if candidate is not None:
                    yield replace(candidate, needs_node=needs_node)


def _by_path(selector: PathSelector, inventory: Inventory) -> Iterator[Candidate]:
    for pattern in selector.globs:
        for found in inventory.found(pattern):
            if found.type in selector.types and not _is_awaited(found, inventory):
                yield of_file(found, inventory)


def _is_awaited(found: FoundFile, inventory: Inventory) -> bool:
    syspath = found.identity.syspath
    return syspath is not None and inventory.facts.awaited(syspath)


def _may_be(selector: Selector, what: SysSelector, device: SysDevice, facts: Facts) -> bool:
    def decide() -> bool:
        return (
            is_candidate_of(what, device)
            and first_failure(what, device, facts, sitting=device) is None
            and hardware_failure(selector.hardware, device, facts) is None
        )

    return facts.decided(device.syspath, selector, decide)


def _subsystems(wanted: tuple[str, ...], inventory: Inventory) -> list[str]:
    if wanted and not any(map(glob.has_wildcard, wanted)):
        return [glob.unescape(name) for name in wanted]
    every = inventory.facts.subsystems()
    return [name for name in every if not wanted or glob.matches_any(wanted, name)]


def of_file(found: FoundFile, inventory: Inventory) -> Candidate:
    """Make a candidate of a file."""
    syspath = found.identity.syspath
    device = None if syspath is None else inventory.facts.device(syspath)
    return Candidate(path=found.path, file=found, device=device)


def of_device(device: SysDevice, inventory: Inventory) -> Candidate | None:
    """Make a candidate of a device of sysfs; None if it vanished just now."""
    path = device.device_file if device.number is not None else ""
    file = inventory.file(path) if path else None
    if file is None or file.key != device.key:
        # Its file is not there (yet), or is another one's.
        file = inventory.file(device.syspath)
    return None if file is None else Candidate(path=file.path, file=file, device=device)


def failure(
    selector: Selector,
    candidate: Candidate,
    resource: Resource,
    inventory: Inventory,
    node_name: str,
) -> Condition | None:
    """Give the first condition of a selector that does not hold for one of its candidates."""
    hardware, device = selector.hardware, candidate.device
    if (hardware.usb, hardware.pci, hardware.udev) != (None, None, None):
        if device is None:
            where = candidate.file.shown
            return Condition(key="hardware", wanted=("*",), found=None, where=where)
        unfit = hardware_failure(hardware, device, inventory.facts)
        if unfit is not None:
            return unfit
    names = Names(candidate, resource=resource, inventory=inventory, node_name=node_name)
    for name, globs in selector.values.items():
        try:
            found = names.get_text("value", name)
        except UnusableValueError:
            found = None
        condition = Condition(
            key=f"values.{name}", wanted=globs, found=found, where=candidate.file.shown
        )
        if not condition.holds:
            return condition
    return None
