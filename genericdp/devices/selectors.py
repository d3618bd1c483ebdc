"""Selectors: what each matches on the host, what it does not, and what is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from genericdp import glob
from genericdp.devices.hardware import (
    BUSES,
    KINDS,
    OF_UEVENT,
    lineage,
    nearest,
    source_device,
    text_of,
    why_unread,
)
from genericdp.devices.inventory import Candidate, SysDevice, natural_key
from genericdp.devices.lookup import Names
from genericdp.model import PathSelector, SysSelector
from genericdp.printing import printable, shortened
from genericdp.scalars import yaml_mapping
from genericdp.template import LackingValueError, UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.devices.inventory import FoundFile, Host, Inventory
    from genericdp.model import Candidates, Globs, Resource, Selector

_MAX_SHOWN = 81
_MAX_FOUND = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One condition, and the value on the host."""

    key: str
    """The key in the config: ``usb.vendor``, ``hardware.udev.properties.ID_BUS``."""
    wanted: Globs
    found: str | None
    """None if the device has no such value."""
    where: str
    """The device that was compared."""
    ignore_case: bool = False
    why: str = ""
    """Why a value was not found."""
    unreadable: str = ""
    """Why it is unknown whether the condition holds; empty if it certainly does not."""

    @property
    def holds(self) -> bool:
        """Return whether the condition holds; without globs, any value does."""
        if not self.wanted:
            return True
        return self.found is not None and glob.matches_any(
            self.wanted, self.found, ignore_case=self.ignore_case
        )


class Hidden(NamedTuple):
    """A place that a selector reads and that may contain more than can be read."""

    wanted: Candidates
    why: str
    seen: frozenset[str] = frozenset()
    """The keys of the things that the selector could read there."""

    def may_hold(self, candidate: Candidate) -> bool:
        """Return whether a candidate may be there, according to all of its known names."""
        wanted, file, device = self.wanted, candidate.file, candidate.device
        if candidate.key in self.seen:
            return False
        if isinstance(wanted, PathSelector):
            names = {file.path, file.target}
            if device is not None:
                names |= {device.device_file, *device.links}
            return any(glob.matches_any(wanted.globs, name) for name in names)
        if device is None:
            return False
        subsystems = subsystem_globs(wanted)
        return not subsystems or glob.matches_any(subsystems, device.subsystem)


@dataclass(slots=True)
class Misses:
    """A candidate that a selector did not match, with the first condition that does not hold."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: dict[str, dict[str | None, tuple[FoundFile | SysDevice, Condition]]] = field(
        default_factory=dict
    )
    """For each key, the first failed condition for some of the values found."""

    def add(self, thing: FoundFile | SysDevice, failed: Condition) -> None:
        """Count a file or device that fails a condition."""
        self.counts[failed.key] += 1
        samples = self.samples.setdefault(failed.key, {})
        if len(samples) <= _MAX_FOUND + 1:
            samples.setdefault(failed.found, (thing, failed))

    def nearest(self, selector: Selector) -> str:
        """Return the key of the condition that the closest candidates fail; empty if there is
        none.
        """
        keys = [key for key in self.counts if key != selector.candidates.kind]
        return max(keys, key=lambda key: conditions_before(selector, key), default="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The result of the selectors of a list, which are identified by their index."""

    candidates: Sequence[Candidate]
    """Everything that any of them matches or may match, each thing once, in natural order of paths.
    """
    hidden: Sequence[tuple[int, Hidden]]
    misses: Mapping[int, Misses]
    """Things that they read and that certainly do not match."""

    def why_unknown(self, candidate: Candidate) -> tuple[int, str] | None:
        """Return the selector that may be the first to match a candidate, and why that is unknown.

        None if it is known which is the first.
        """
        uncertain = [
            (i, selector.why) for i, selector in self.hidden if selector.may_hold(candidate)
        ]
        uncertain += ((i, why) for i, why in candidate.entries.items() if why)
        surely = min((i for i, why in candidate.entries.items() if not why), default=inf)
        return min((entry for entry in uncertain if entry[0] < surely), default=None)


def select(selectors: Sequence[Selector], resource: Resource, inventory: Inventory) -> Selection:
    """Evaluate the selectors of a list, each against everything that it reads."""
    found: dict[str, list[Candidate]] = {}
    hidden, misses = [], {}
    for i, selector in enumerate(selectors):
        missed = misses[i] = Misses()
        things = [*_things(selector.candidates, inventory)]
        for thing in things:
            failed = why_not(selector, thing, resource, inventory)
            if failed is not None and not failed.unreadable:
                missed.add(thing, failed)
            elif (candidate := inventory.candidate(thing)) is not None:
                why = "" if failed is None else failed.unreadable
                uncertain = Candidate(
                    file=candidate.file, device=candidate.device, entries={i: why}
                )
                found.setdefault(candidate.key, []).append(uncertain)
        if parts := [*_hidden(selector.candidates, inventory)]:
            seen = frozenset(thing.key for thing in things)
            hidden += [(i, part._replace(seen=seen)) for part in parts]
    candidates = map(_under_one_name, found.values())
    return Selection(
        candidates=sorted(candidates, key=lambda candidate: natural_key(candidate.path)),
        hidden=hidden,
        misses=misses,
    )


def _under_one_name(found: Sequence[Candidate]) -> Candidate:
    def rank(candidate: Candidate) -> tuple[object, ...]:
        # Certain matches count before uncertain ones, names that may be injected before others,
        # links before nodes.
        is_refused = bool(candidate.file.refusal)
        is_certain = "" in candidate.entries.values()
        return not is_certain, is_refused, not candidate.file.is_link, natural_key(candidate.path)

    if len(found) == 1:
        return found[0]
    entries: dict[int, str] = {}
    for i, why in chain.from_iterable(candidate.entries.items() for candidate in found):
        entries[i] = why and entries.get(i, why)
    return replace(min(found, key=rank), entries=entries)


def _things(wanted: Candidates, inventory: Inventory) -> Iterator[FoundFile | SysDevice]:
    """Yield the things that a selector reads, without those that udev has yet to record."""
    awaited = inventory.host.awaited
    if isinstance(wanted, PathSelector):
        for file in (file for pattern in wanted.globs for file in inventory.found(pattern)):
            if file.identity.syspath is None or not awaited(file.identity.syspath):
                yield file
        return
    for subsystem in _subsystems(wanted, inventory.host):
        yield from (
            member for member in inventory.host.members(subsystem) if not awaited(member.syspath)
        )


def _hidden(wanted: Candidates, inventory: Inventory) -> Iterator[Hidden]:
    """Yield the places that a selector reads and that cannot be read completely."""
    host = inventory.host
    if isinstance(wanted, PathSelector):
        for pattern in wanted.globs:
            why = inventory.look(pattern).unreadable
            if pattern in inventory.hanging:
                why = f"reading {pattern} timed out"
            if why:
                yield Hidden(replace(wanted, globs=(pattern,)), why)
        return
    directories: list[tuple[str, Candidates]] = [("/sys/bus", wanted), ("/sys/class", wanted)]
    for name in _subsystems(wanted, host):
        host.members(name)
        of_name = SysSelector(kind="udev", keys={"subsystem": (glob.escape(name),)})
        directories += [(f"/sys/bus/{name}/devices", of_name), (f"/sys/class/{name}", of_name)]
    for directory, part in directories:
        if why := host.why_unreadable(directory):
            yield Hidden(part, f"{directory} cannot be read: {why}")


def _subsystems(wanted: SysSelector, host: Host) -> list[str]:
    globs = subsystem_globs(wanted)
    if globs and not any(map(glob.has_wildcard, globs)):
        return [glob.unescape(name) for name in globs]
    return [name for name in host.subsystems() if not globs or glob.matches_any(globs, name)]


def subsystem_globs(selector: SysSelector) -> Globs:
    """Return the subsystems of the selector's candidates; empty for all."""
    return selector.keys.get("subsystem", ()) if selector.kind == "udev" else (selector.kind,)


def is_candidate_of(selector: SysSelector, device: SysDevice) -> bool:
    """Return whether the selector is about such devices at all."""
    if selector.kind == "udev":
        subsystems = subsystem_globs(selector)
        return not subsystems or glob.matches_any(subsystems, device.subsystem)
    return BUSES[selector.kind](device)


def why_not(
    selector: Selector, thing: FoundFile | SysDevice, resource: Resource, inventory: Inventory
) -> Condition | None:
    """Return the condition that a file or device fails; None if the selector matches it.

    The condition certainly does not hold, else it is unknown (``Condition.unreadable``).
    """
    unknown = None
    for condition in unmet(selector, thing, resource, inventory):
        if not condition.unreadable:
            return condition
        unknown = unknown or condition
    return unknown


def unmet(
    selector: Selector, thing: FoundFile | SysDevice, resource: Resource, inventory: Inventory
) -> Iterator[Condition]:
    """Yield the conditions of a selector that do not hold for a file or device, or may not."""
    wanted, host = selector.candidates, inventory.host
    if isinstance(thing, SysDevice):
        if isinstance(wanted, PathSelector):
            return
        if wanted.kind != "udev" and not is_candidate_of(wanted, thing):
            yield _lacking(wanted.kind, thing, host, prefix="")
        yield from _unmet(wanted, thing, host, sitting=thing)
        yield from _unmet_hardware(selector.hardware, thing, host)
    elif isinstance(wanted, PathSelector) and thing.type not in wanted.types:
        types, where = tuple(map(str, wanted.types)), thing.printable_path
        yield Condition(key="type", wanted=types, found=str(thing.type), where=where)
    else:
        device = inventory.of_file(thing).device
        yield from _unmet_hardware(selector.hardware, device, host, thing.printable_path)
    # Last: it saves reading device files.
    if selector.values and (candidate := inventory.candidate(thing)) is not None:
        yield from _unmet_values(selector.values, candidate, resource, inventory)


def _conditions(
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Yield the conditions of a selector for one device; ``sitting`` is its child."""
    kind = selector.kind
    for name, globs, ignore_case in _wanted(selector):
        asked = source_device(kind, device, name, host, sitting)
        key, where = f"{prefix}{kind}.{name}", asked.syspath
        found = text_of(kind, asked, name, host)
        condition = Condition(
            key=key, wanted=globs, found=found, where=where, ignore_case=ignore_case
        )
        unreadable = "" if condition.holds else why_unread(kind, name, asked, host)
        yield replace(condition, unreadable=unreadable) if unreadable else condition


def _wanted(selector: SysSelector) -> Iterator[tuple[str, Globs, bool]]:
    """Yield what a selector requires, by the keys of the config, and whether case is ignored."""
    for name, key in KINDS[selector.kind].keys.items():
        if name in selector.keys:
            yield name, selector.keys[name], key.hexadecimal
    yield from (
        (f"properties.{name}", expected, False) for name, expected in selector.properties.items()
    )
    yield from (
        (f"attributes.{name}", expected, False) for name, expected in selector.attributes.items()
    )


def _unmet(
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    asked = _conditions(selector, device, host, prefix=prefix, sitting=sitting)
    return (condition for condition in asked if not condition.holds)


def _lacking(kind: str, device: SysDevice, host: Host, *, prefix: str) -> Condition:
    """Return the failed condition of a device that is not of a kind and has no such parent."""
    unreadable = why_unread(kind, "", device, host, above=bool(prefix))
    key, where = f"{prefix}{kind}", device.syspath
    return Condition(key=key, wanted=("*",), found=None, where=where, unreadable=unreadable)


def _unmet_hardware(
    hardware: Sequence[SysSelector], device: SysDevice | None, host: Host, where: str = ""
) -> Iterator[Condition]:
    """Yield the conditions on the device and its parents that do not hold.

    ``where`` is the path for messages if sysfs has no such device.
    """
    if device is None:
        if hardware:
            yield Condition(key="hardware", wanted=("*",), found=None, where=where)
        return
    for selector in hardware:
        if selector.kind == "udev":
            if failure := _any_ancestor(selector, device, host):
                yield failure
        elif (below := nearest(device, host, BUSES[selector.kind])) is None:
            yield _lacking(selector.kind, device, host, prefix="hardware.")
        else:
            yield from _unmet(selector, below, host, prefix="hardware.", sitting=device)


def _any_ancestor(selector: SysSelector, device: SysDevice, host: Host) -> Condition | None:
    """All conditions must hold for the same ancestor; else yield the failures of the best one.

    The best ancestor is one that may match, then the one that meets most conditions.
    """
    failures: list[tuple[int, Condition]] = []
    for ancestor in lineage(device, host):
        asked = list(_conditions(selector, ancestor, host, prefix="hardware.", sitting=device))
        failed = [i for i, condition in enumerate(asked) if not condition.holds]
        if not failed:
            return None
        surely = next((i for i in failed if not asked[i].unreadable), None)
        held = len(asked) if surely is None else failed[0]
        failures.append((held, asked[failed[0] if surely is None else surely]))
    return max(failures, key=lambda failure: failure[0])[1] if failures else None


def _unmet_values(
    values: Mapping[str, Globs], candidate: Candidate, resource: Resource, inventory: Inventory
) -> Iterator[Condition]:
    names = Names(candidate, resource=resource, inventory=inventory, is_selecting=True)
    for name, globs in values.items():
        found, why, unreadable = None, "", ""
        try:
            found = names.get_text("value", name)
        except LackingValueError as error:
            why = str(error)
        except UnusableValueError as error:
            unreadable = str(error)
        condition = Condition(
            key=f"values.{name}",
            wanted=globs,
            found=found,
            where=candidate.file.printable_path,
            why=why,
            unreadable=unreadable,
        )
        if not condition.holds:
            yield condition


def path_globs(selectors: Iterable[Selector]) -> tuple[str, ...]:
    """Return the globs of the selectors that have a path."""
    paths = (
        selector.candidates
        for selector in selectors
        if isinstance(selector.candidates, PathSelector)
    )
    return tuple(pattern for path in paths for pattern in path.globs)


def shown(text: str) -> str:
    """Return a string of the host on one line, shortened if it is long."""
    return shortened(printable(text), _MAX_SHOWN)


def selector_text(selector: Selector) -> str:
    """Return a selector as it can be written in a config, on one line."""
    wanted = selector.candidates
    if isinstance(wanted, SysSelector):
        keys: dict[str, object] = {wanted.kind: _as_config(wanted)}
    else:
        keys = {"path": _as_config(wanted.globs)}
        if wanted.types != PathSelector(globs=()).types:
            keys["type"] = _as_config(tuple(map(str, wanted.types)))
    hardware = {part.kind: _as_config(part) for part in selector.hardware}
    beside = {"hardware": hardware, "values": _as_config(selector.values)}
    return yaml_mapping(keys | {key: part for key, part in beside.items() if part})


def _as_config(part: SysSelector | Mapping[str, Globs] | Globs) -> object:
    """Return a part of a selector as in a config; a list with one entry becomes that entry."""
    if isinstance(part, SysSelector):
        order = [key for key in KINDS[part.kind].keys if key in part.keys]
        nested = {"properties": part.properties, "attributes": part.attributes}
        keys = {key: _as_config(part.keys[key]) for key in order}
        return keys | {
            key: _as_config(keys_below) for key, keys_below in nested.items() if keys_below
        }
    if isinstance(part, Mapping):
        return {key: _as_config(globs) for key, globs in part.items()}
    return part[0] if len(part) == 1 else list(part)


def conditions_before(selector: Selector, key: str) -> int:
    """Return how many conditions of a selector are checked before one that fails."""
    if key == "type":
        return 0
    wanted = selector.candidates
    # A path stands for subsystem and name.
    keys = ["path"] * 2 if isinstance(wanted, PathSelector) else [wanted.kind]
    beside = ((part, "hardware.") for part in selector.hardware)
    for part, prefix in ((wanted, ""), *beside):
        if not isinstance(part, PathSelector):
            keys += (f"{prefix}{part.kind}.{name}" for name, *_ in _wanted(part))
    # A key may stand for all keys below it: "hardware", "usb".
    return next((i for i, name in enumerate(keys) if f"{name}.".startswith(f"{key}.")), len(keys))


def any_of(texts: Iterable[str]) -> str:
    """Join alternatives."""
    return " or ".join(map(shown, texts))


def complaint(condition: Condition) -> str:
    """Return a failed condition in words: ``expected usb.vendor 0403, found 1a86``."""
    key = condition.key
    bus = key.removeprefix("hardware.")
    if condition.unreadable and (bus in KINDS or bus.startswith(OF_UEVENT)):
        return f"expected {key}, but {condition.unreadable}"
    if key == "hardware":
        return "expected hardware, but sysfs does not list it"
    if key == "path" and condition.found is None:
        return "looks for device files, and this device has none"
    if bus in KINDS:
        return _about_kind(condition, KINDS[bus].noun)
    expected = f"expected {key} {any_of(condition.wanted)}"
    if why := condition.unreadable or condition.why:
        return f"{expected}, but {printable(why)}"
    if condition.found is not None:
        cased = glob.matches_any(condition.wanted, condition.found, ignore_case=True)
        but = " (upper and lower case count here)" if cased else ""
        return f"{expected}, found {shown(condition.found) or 'an empty string'}{but}"
    return f"{expected}, but it has none"


def _about_kind(condition: Condition, noun: str) -> str:
    if condition.key not in KINDS:
        return f"expected {condition.key}, but it is not a {noun} and has no such parent"
    is_what = "sysfs does not list it" if condition.found is None else f"it is {condition.found}"
    return f"matches {noun}s, but {is_what}"
