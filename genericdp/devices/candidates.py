"""Candidates: what the selectors of a resource look at and take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.conditions import (
    Condition,
    is_candidate_of,
    kind_of,
    subsystem_globs,
    unmet,
    unmet_hardware,
    why_unknown,
)
from genericdp.devices.inventory import NODE_TYPES
from genericdp.devices.lookup import Names
from genericdp.devices.natural import natural_key
from genericdp.devices.sysdevice import SysDevice
from genericdp.model import PathSelector, UdevSelector
from genericdp.template import LackingValueError, UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.devices.inventory import FoundFile, Inventory
    from genericdp.devices.sysdevice import Host
    from genericdp.model import Candidates, Resource, Selector


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
    doubt: str = ""
    """Why nobody can know whether the selectors take it; empty if they surely do."""

    @property
    def key(self) -> str:
        """Equal for all names of one thing."""
        return self.file.key

    @property
    def has_node(self) -> bool:
        """Whether it has a device file."""
        return self.file.type in NODE_TYPES


def taken(
    selectors: Sequence[Selector],
    resource: Resource,
    inventory: Inventory,
    node_name: str,
    *,
    wary: bool = False,
) -> list[Candidate]:
    """Give what any of the selectors takes, each thing once, in natural order of its path.

    ``wary``: with a ``doubt`` also what one may take, for all that can be known.
    """
    names: dict[str, list[Candidate]] = {}
    for selector in selectors:
        for one in _fitting(selector, resource, inventory, node_name, wary=wary):
            names.setdefault(one.key, []).append(one)
    candidates = map(_under_one_name, names.values())
    return sorted(candidates, key=lambda one: natural_key(one.path))


def might_take(
    selector: Selector, resource: Resource, inventory: Inventory, node_name: str
) -> set[str]:
    """Return the keys of what a selector takes, and of what it cannot be asked about."""
    keys = set()
    for thing in list(_things(selector, inventory)):

        def ask(thing: FoundFile | SysDevice = thing) -> set[str]:
            one = _fit(selector, thing, resource, inventory, node_name, wary=True)
            return set() if one is None else {one.key}

        its = inventory.attempt(resource.name, ask)
        keys |= {thing.key, _syspath(thing) or thing.key} if its is None else its
    return keys


def could_be_meant(selector: Selector, file: FoundFile, device: SysDevice | None) -> bool:
    """Tell whether a selector may look at a file, by all names of it that are known."""
    wanted = selector.candidates
    if isinstance(wanted, PathSelector):
        names = {file.path, file.target}
        if device is not None:
            names |= {device.device_file, *device.links}
        return any(glob.matches_any(wanted.globs, name) for name in names)
    subsystems = subsystem_globs(wanted)
    if device is None:
        return False
    return not subsystems or glob.matches_any(subsystems, device.subsystem)


def entries(resource: Resource, inventory: Inventory, node_name: str) -> dict[str, frozenset[int]]:
    """Give the entries of ``match`` that take each candidate, by its key: all, not the first."""
    found: dict[str, set[int]] = {}
    for i, selector in enumerate(resource.match):
        for candidate in _fitting(selector, resource, inventory, node_name):
            found.setdefault(candidate.key, set()).add(i)
    return {key: frozenset(those) for key, those in found.items()}


def unseen(selectors: Sequence[Selector], inventory: Inventory) -> str:
    """Return why selectors may look at more than can be seen; empty if they see everything."""
    reasons = (why for one in selectors for why in _unseen(one.candidates, inventory))
    return next(reasons, "")


def _unseen(candidates: Candidates, inventory: Inventory) -> Iterator[str]:
    if isinstance(candidates, PathSelector):
        for pattern in candidates.globs:
            if trouble := inventory.trouble(pattern):
                yield trouble
            if pattern in inventory.hanging:
                yield f"looking at {pattern} does not end"
        return
    folders = ["/sys/bus", "/sys/class"]
    for subsystem in _subsystems(subsystem_globs(candidates), inventory):
        inventory.host.members(subsystem)
        folders += [f"/sys/bus/{subsystem}/devices", f"/sys/class/{subsystem}"]
    for folder in folders:
        if why := inventory.host.trouble(folder):
            yield f"{folder} cannot be read: {why}"


def _fitting(
    selector: Selector,
    resource: Resource,
    inventory: Inventory,
    node_name: str,
    *,
    wary: bool = False,
) -> Iterator[Candidate]:
    """Give what one selector takes."""
    for thing in _things(selector, inventory):
        syspath = _syspath(thing)
        if syspath is not None and inventory.host.awaited(syspath):
            continue
        candidate = _fit(selector, thing, resource, inventory, node_name, wary=wary)
        if candidate is not None:
            yield candidate


def _things(selector: Selector, inventory: Inventory) -> Iterator[FoundFile | SysDevice]:
    """Give what a selector looks at."""
    candidates = selector.candidates
    if isinstance(candidates, PathSelector):
        for pattern in candidates.globs:
            yield from inventory.found(pattern)
    else:
        for subsystem in _subsystems(subsystem_globs(candidates), inventory):
            yield from inventory.host.members(subsystem)


def _syspath(thing: FoundFile | SysDevice) -> str | None:
    return thing.syspath if isinstance(thing, SysDevice) else thing.identity.syspath


def _fit(
    selector: Selector,
    thing: FoundFile | SysDevice,
    resource: Resource,
    inventory: Inventory,
    node_name: str,
    *,
    wary: bool,
) -> Candidate | None:
    """Return the file or device as a candidate; None if the selector does not take it."""
    host = inventory.host
    doubts: list[str] = []

    def is_out(unmet: Iterable[Condition]) -> bool:
        """Return whether a condition surely does not hold; what is unknown is only doubted."""
        for condition in unmet:
            why = why_unknown(condition, host) if wary else ""
            if not why:
                return True
            doubts.append(why)
        return False

    # What is known of it first: a device file need not be looked at for nothing.
    if is_out(_unmet_in_sysfs(selector, thing, host)):
        return None
    candidate = _candidate(selector, thing, inventory)
    if candidate is None or is_out(
        failures(selector, candidate, resource, inventory, node_name, wary=wary)
    ):
        return None
    return replace(candidate, doubt=doubts[0]) if doubts else candidate


def _unmet_in_sysfs(
    selector: Selector, thing: FoundFile | SysDevice, host: Host
) -> Iterator[Condition]:
    """Give the conditions on a device of sysfs that do not hold."""
    wanted = selector.candidates
    if isinstance(wanted, PathSelector) or not isinstance(thing, SysDevice):
        return
    if not isinstance(wanted, UdevSelector) and not is_candidate_of(wanted, thing):
        yield Condition(key=kind_of(wanted), wanted=("*",), found=None, where=thing.syspath)
    yield from unmet(wanted, thing, host, sitting=thing)
    yield from unmet_hardware(selector.hardware, thing, host)


def _candidate(
    selector: Selector, thing: FoundFile | SysDevice, inventory: Inventory
) -> Candidate | None:
    """Give what the selector looks at as a candidate."""
    wanted = selector.candidates
    if isinstance(wanted, PathSelector):
        if isinstance(thing, SysDevice) or thing.type not in wanted.types:
            return None
        return of_file(thing, inventory)
    if not isinstance(thing, SysDevice):
        return None
    candidate = of_device(thing, inventory)
    if candidate is None or not isinstance(wanted, UdevSelector):
        return candidate
    return replace(candidate, needs_node=True)


def _under_one_name(candidates: list[Candidate]) -> Candidate:
    if len(candidates) == 1:
        return candidates[0]

    def rank(one: Candidate) -> tuple[object, ...]:
        # What is certain counts before what is not, a name that may be handed out before one that
        # may not, a link before a node.
        trouble = bool(one.file.trouble)
        return bool(one.doubt), trouble, not one.file.is_link, natural_key(one.path)

    return min(candidates, key=rank)


def _subsystems(wanted: tuple[str, ...], inventory: Inventory) -> list[str]:
    if wanted and not any(map(glob.has_wildcard, wanted)):
        return [glob.unescape(name) for name in wanted]
    every = inventory.host.subsystems()
    return [name for name in every if not wanted or glob.matches_any(wanted, name)]


def of_file(found: FoundFile, inventory: Inventory) -> Candidate:
    """Make a candidate of a file."""
    syspath = found.identity.syspath
    device = None if syspath is None else inventory.host.device(syspath)
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
    return next(failures(selector, candidate, resource, inventory, node_name), None)


def failures(
    selector: Selector,
    candidate: Candidate,
    resource: Resource,
    inventory: Inventory,
    node_name: str,
    *,
    wary: bool = False,
) -> Iterator[Condition]:
    """Give the conditions of a selector that do not hold for one of its candidates.

    ``wary``: of values whatever nobody can know is unknown.
    """
    hardware, device, where = selector.hardware, candidate.device, candidate.file.shown
    if (hardware.usb, hardware.pci, hardware.udev) != (None, None, None):
        if device is None:
            yield Condition(key="hardware", wanted=("*",), found=None, where=where)
        else:
            yield from unmet_hardware(hardware, device, inventory.host)
    names = Names(candidate, resource=resource, inventory=inventory, node_name=node_name, wary=wary)
    for name, globs in selector.values.items():
        found, why, unknown = None, "", False
        try:
            found = names.get_text("value", name)
        except LackingValueError as error:
            why = str(error)
        except UnusableValueError as error:
            why, unknown = str(error), True
        condition = Condition(
            key=f"values.{name}", wanted=globs, found=found, where=where, why=why, unknown=unknown
        )
        if not condition.holds:
            yield condition
