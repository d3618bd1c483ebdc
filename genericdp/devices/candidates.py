"""Candidates: what the selectors of a resource look at and take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
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
from genericdp.devices.sysdevice import SysDevice
from genericdp.model import PathSelector, UdevSelector
from genericdp.natural import in_natural_order, natural_key
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.devices.inventory import FoundFile, Inventory
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


@dataclass(frozen=True, slots=True)
class _Fit:
    """What a selector makes of a file or device of sysfs."""

    thing: FoundFile | SysDevice
    candidate: Candidate | None
    """None: it does not take it."""


def taken(
    selectors: Sequence[Selector], resource: Resource, inventory: Inventory, node_name: str
) -> list[Candidate]:
    """Give what any of the selectors takes, each thing once, in natural order of its path."""
    found = [
        candidate
        for selector in selectors
        for candidate in _fitting(selector, resource, inventory, node_name)
    ]
    candidates = {one.file.key: one for one in found}
    if len(candidates) < len(found):
        inventory.memory.named_twice.add(resource.name)
        names: dict[str, list[Candidate]] = {}
        for one in found:
            names.setdefault(one.key, []).append(one)
        candidates = {key: _under_one_name(several) for key, several in names.items()}
    if inventory.scope is not None:
        return sorted(candidates.values(), key=lambda one: natural_key(one.path))
    orders, name = inventory.memory.orders, f"{resource.name} {id(selectors)}"
    orders[name] = in_natural_order(
        candidates.values(), lambda one: one.path, before=orders.get(name, ())
    )
    return orders[name]


def entries(resource: Resource, inventory: Inventory, node_name: str) -> dict[str, frozenset[int]]:
    """Give the entries of ``match`` that take each candidate, by its key: all, not the first."""
    found: dict[str, set[int]] = {}
    for i, selector in enumerate(resource.match):
        for candidate in _fitting(selector, resource, inventory, node_name):
            found.setdefault(candidate.key, set()).add(i)
    return {key: frozenset(those) for key, those in found.items()}


def _fitting(
    selector: Selector, resource: Resource, inventory: Inventory, node_name: str
) -> Iterator[Candidate]:
    """Give what one selector takes; only what is new or may have changed is asked about."""
    part = inventory.memory.part("fit", resource.name, id(selector))
    for name, thing in _things(selector, inventory):
        fit = part.get(name)
        if fit is None or fit.thing is not thing:
            about = _syspath(thing) or name
            if inventory.facts.awaited(about):
                continue
            decide = partial(_fit, selector, thing, resource, inventory, node_name)
            fit = inventory.decide(part, name, about, decide)
        if fit.candidate is not None:
            yield fit.candidate


def _things(
    selector: Selector, inventory: Inventory
) -> Iterator[tuple[str, FoundFile | SysDevice]]:
    """Give what a selector looks at, by path or syspath."""
    candidates, scope, facts = selector.candidates, inventory.scope, inventory.facts
    if isinstance(candidates, PathSelector):
        for pattern in candidates.globs:
            found = inventory.found(pattern)
            for file in found if scope is None else scope.among(found):
                yield file.path, file
    else:
        for subsystem in _subsystems(subsystem_globs(candidates), inventory):
            members = facts.members(subsystem) if scope is None else scope.members(subsystem, facts)
            for device in members:
                yield device.syspath, device


def _syspath(thing: FoundFile | SysDevice) -> str | None:
    return thing.syspath if isinstance(thing, SysDevice) else thing.identity.syspath


def _fit(
    selector: Selector,
    thing: FoundFile | SysDevice,
    resource: Resource,
    inventory: Inventory,
    node_name: str,
) -> _Fit:
    candidate = _candidate(selector, thing, inventory)
    if candidate is not None and failure(selector, candidate, resource, inventory, node_name):
        candidate = None
    return _Fit(thing, candidate)


def _candidate(
    selector: Selector, thing: FoundFile | SysDevice, inventory: Inventory
) -> Candidate | None:
    """Give what the selector names as a candidate; of sysfs what fits it, but for values."""
    wanted, facts = selector.candidates, inventory.facts
    if isinstance(wanted, PathSelector):
        if isinstance(thing, SysDevice) or thing.type not in wanted.types:
            return None
        return of_file(thing, inventory)
    if not isinstance(thing, SysDevice):
        return None
    # What is known of it first: a device file need not be looked at for nothing.
    if (
        not is_candidate_of(wanted, thing)
        or first_failure(wanted, thing, facts, sitting=thing) is not None
        or hardware_failure(selector.hardware, thing, facts) is not None
    ):
        return None
    candidate = of_device(thing, inventory)
    if candidate is None or not isinstance(wanted, UdevSelector):
        return candidate
    return replace(candidate, needs_node=True)


def _under_one_name(candidates: list[Candidate]) -> Candidate:
    if len(candidates) == 1:
        return candidates[0]

    def rank(one: Candidate) -> tuple[object, ...]:
        # A name that may be handed out counts before one that may not, a link before a node.
        return bool(one.file.trouble), not one.file.is_link, natural_key(one.path)

    return min(candidates, key=rank)


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
