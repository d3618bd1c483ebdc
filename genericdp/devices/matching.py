"""Matching: what the selectors of a resource look at and take, and which resource has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.conditions import (
    Condition,
    Misses,
    is_candidate_of,
    subsystem_globs,
    unmet,
    unmet_hardware,
    why_unknown,
)
from genericdp.devices.device import NotOffered
from genericdp.devices.inventory import Candidate, SysDevice
from genericdp.devices.lookup import Names
from genericdp.devices.natural import natural_key
from genericdp.model import Inject, PathSelector, UdevSelector
from genericdp.printing import printable
from genericdp.reasons import Code, Reason
from genericdp.template import LackingValueError, Template, UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.devices.inventory import FoundFile, Host, Inventory
    from genericdp.model import Resource, Selector

_EXCLUDED = Reason(Code.EXCLUDED, "excluded by the config")


@dataclass(frozen=True, kw_only=True, slots=True)
class Excluded:
    """What a resource must not take, nor bring along with something else."""

    doubts: Mapping[str, str]
    """Why nobody can know whether something is excluded, by its key and by its syspath; empty: it
    is for sure."""
    unknown: str
    """Why nobody can know that of anything."""

    def reason(self, file: FoundFile) -> Reason | None:
        """Return why the file is out; None if it is not."""
        doubt = self.doubt(file)
        if doubt:
            return Reason(Code.UNREADABLE, f"may be excluded, but {doubt}")
        return None if doubt is None else _EXCLUDED

    def doubt(self, file: FoundFile) -> str | None:
        """Return why nobody can know whether the file is excluded.

        Empty: it is for sure; None: it is not.
        """
        names = _names_of(file) if self.doubts else ()
        doubts = [self.doubts[one] for one in names if one in self.doubts]
        return "" if "" in doubts else next(iter(doubts), self.unknown or None)


def _names_of(file: FoundFile) -> Iterator[str]:
    """Yield its key, its syspath and those above: what sits on something is excluded with it."""
    yield file.key
    syspath = file.identity.syspath
    while syspath:
        yield syspath
        syspath = syspath.rpartition("/")[0]


@dataclass(slots=True)
class Owners:
    """Which of the earlier resources of a config has a candidate, by its key.

    A resource claims what it takes: its members, and what is withheld (``Match.withheld``).
    One that cannot be decided keeps what its last list owned; if there was none, all that its
    selectors might look at is reserved. Among devices, those on a list that are absent just now
    (``_Draft.absent``) keep their IDs and nodes.
    """

    names: dict[str, str] = field(default_factory=dict)
    sharing: set[str] = field(default_factory=set)
    """The names of resources with ``exclusive: false``, which may have what each other has."""
    undecided: list[tuple[str, Selector]] = field(default_factory=list)
    """Selectors of resources that could not be decided yet: nobody knows what they take."""

    def enter(self, resource: Resource, keys: Iterable[str]) -> None:
        """Let a resource have what none before it has."""
        if not resource.exclusive:
            self.sharing.add(resource.name)
        for key in keys:
            self.names.setdefault(key, resource.name)

    def reserve(self, resource: Resource) -> None:
        """Let nobody have what a resource might take."""
        if not resource.exclusive:
            self.sharing.add(resource.name)
        self.undecided += ((resource.name, selector) for selector in resource.match)

    def why_not(self, candidate: Candidate, *, exclusive: bool) -> Reason | None:
        """Return why a resource cannot have a candidate; None: it can."""
        owner = self.names.get(candidate.key)
        shares = owner in self.sharing
        if owner is None or (shares and not exclusive):
            reserved = self.why_reserved(candidate, exclusive=exclusive)
            return Reason(Code.TAKEN, reserved) if reserved else None
        hint = ""
        if shares or not exclusive:
            where = "here" if exclusive else "there"
            hint = f" (both can have it only with exclusive: false {where}, too)"
        text = f"belongs to resource {owner}, which comes first in the config{hint}"
        return Reason(Code.TAKEN, text, owner)

    def why_reserved(self, candidate: Candidate, *, exclusive: bool) -> str:
        """Return which undecided resource might take it, in words; empty: none."""
        might = (
            name
            for name, selector in self.undecided
            if (exclusive or name not in self.sharing) and _could_look_at(selector, candidate)
        )
        owner = next(might, "")
        if not owner:
            return ""
        return (
            f"may belong to resource {owner}, which comes first in the config and cannot be decided"
        )


def for_node(resources: Iterable[Resource], node_name: str) -> tuple[Resource, ...]:
    """Return the resources that apply on this node: of equal names the first that fits."""
    fitting: dict[str, Resource] = {}
    for resource in resources:
        if not resource.node_names or glob.matches_any(resource.node_names, node_name):
            fitting.setdefault(resource.name, resource)
    return tuple(fitting.values())


def why_none(resources: Sequence[Resource], node_name: str) -> str:
    """Return why a config offers nothing at all on a node; empty if a resource is for it."""
    if not resources:
        return "the config names no resource"
    if for_node(resources, node_name):
        return ""
    names = dict.fromkeys(name for one in resources for name in one.node_names)
    listed = ", ".join(map(printable, names))
    return f"no resource is for this node {printable(node_name)} (nodeNames: {listed})"


def path_globs(selectors: Iterable[Selector]) -> tuple[str, ...]:
    """Return the globs of the selectors that go by path."""
    paths = (one.candidates for one in selectors if isinstance(one.candidates, PathSelector))
    return tuple(pattern for one in paths for pattern in one.globs)


def reads_properties(resource: Resource) -> bool:
    """Return whether the resource asks for what udev records, beyond what the kernel says."""
    selectors = (*resource.match, *resource.exclude)
    asking = ((one.candidates, one.hardware.udev) for one in selectors)
    if any(getattr(part, "properties", None) for pair in asking for part in pair):
        return True
    return any(
        reference.scope == "property"
        for template in templates_of(resource)
        for reference in template.references
    )


def templates_of(value: object) -> Iterator[Template]:
    """Yield every template of a value of the model, however deep."""
    if isinstance(value, Template):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from templates_of(entry)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from templates_of(entry)
    elif is_dataclass(value):
        for part in fields(value):
            yield from templates_of(getattr(value, part.name))


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """What one resource takes, and what it cannot take."""

    members: tuple[Candidate, ...]
    refused: tuple[NotOffered, ...]
    excluded: Excluded
    misses: Mapping[int, Misses] = field(default_factory=dict)
    """What entries of ``match`` looked at and did not take."""
    withheld: frozenset[str] = frozenset()
    """The keys of what may be excluded, or of one entry or another: nobody can know."""

    @property
    def claimed(self) -> frozenset[str]:
        """The keys of the candidates that no later resource gets."""
        return self.withheld.union(one.key for one in self.members)


def match(resource: Resource, owners: Owners, inventory: Inventory) -> Match:
    """Return what a resource takes of what no earlier one has (D8)."""
    out = excluded(resource, inventory)
    members: list[Candidate] = []
    refused: list[NotOffered] = []
    misses: dict[int, Misses] = {}
    candidates = find_candidates(resource.match, resource, inventory, misses=misses)
    not_excluded = [one for one in candidates if not out.reason(one.file)]
    of_some_entry = _entry_doubts(resource, not_excluded, inventory)
    for one in candidates:
        reason = out.reason(one.file)
        if reason is None and one.file.refusal:
            reason = Reason(Code.FORBIDDEN, one.file.refusal)
        reason = reason or owners.why_not(one, exclusive=resource.exclusive)
        if reason is None and one.key in of_some_entry:
            reason = Reason(Code.UNREADABLE, of_some_entry[one.key])
        if reason is not None:
            refused.append(not_offered(one, reason))
        else:
            members.append(one)
    refused += _wrong_types(resource, {one.key for one in members}, inventory)
    # What is not known may be known again in a moment: nobody else gets it meanwhile.
    doubtful = of_some_entry.keys() | {one.key for one in candidates if out.doubt(one.file)}
    return Match(
        members=tuple(members),
        refused=tuple(refused),
        excluded=out,
        misses=misses,
        withheld=frozenset(doubtful - owners.names.keys()),
    )


def _entry_doubts(
    resource: Resource, candidates: Sequence[Candidate], inventory: Inventory
) -> dict[str, str]:
    """Return why nobody can know which entry is the first to take a candidate, by its key.

    Empty where no entry has an ``inject``: a container is given the same for all.
    """
    possible: dict[str, list[str]] = {one.key: [] for one in candidates}
    has_injects = any(one.inject != Inject() for one in resource.match)
    for i, selector in enumerate(resource.match if has_injects else ()):
        found = find_candidates((selector,), resource, inventory, wary=True)
        doubts = {one.key: one.doubt for one in found}
        hidden = next(unseen((selector,), inventory), "")
        for one in candidates:
            if hidden and _could_look_at(selector, one):
                doubts.setdefault(one.key, hidden)
            doubt, known = doubts.get(one.key), possible[one.key]
            if doubt is not None and all(known):  # none surely takes it yet
                known.append(doubt and f"may be of match[{i}], but {doubt}")
    return {key: reasons[0] for key, reasons in possible.items() if len(reasons) > 1}


def not_offered(
    candidate: Candidate, reason: Reason, *, key: str = "", members: tuple[str, ...] = ()
) -> NotOffered:
    """Return why a candidate, or the group ``key`` that begins with it, is not offered."""
    return NotOffered(
        path=candidate.file.printable_path,
        key=key or candidate.key,
        reason=reason,
        members=members,
    )


def excluded(resource: Resource, inventory: Inventory) -> Excluded:
    """Return what the ``exclude`` of a resource takes, or may take."""
    found = find_candidates(resource.exclude, resource, inventory, wary=True)
    names = [(name, one.doubt) for one in found for name in (one.key, _syspath(one.file)) if name]
    # A folder of sysfs may be that of several: what is excluded for sure comes last, and stays.
    doubts = dict(sorted(names, key=lambda one: not one[1]))
    return Excluded(doubts=doubts, unknown=next(unseen(resource.exclude, inventory), ""))


def unseen(selectors: Iterable[Selector], inventory: Inventory) -> Iterator[str]:
    """Yield why selectors may look at more than can be seen."""
    for wanted in (one.candidates for one in selectors):
        if isinstance(wanted, PathSelector):
            yield from _unseen_paths(wanted, inventory)
            continue
        folders = ["/sys/bus", "/sys/class"]
        for subsystem in _subsystems(subsystem_globs(wanted), inventory.host):
            inventory.host.members(subsystem)
            folders += [f"/sys/bus/{subsystem}/devices", f"/sys/class/{subsystem}"]
        for folder in folders:
            if why := inventory.host.why_unreadable(folder):
                yield f"{folder} cannot be read: {why}"


def _unseen_paths(wanted: PathSelector, inventory: Inventory) -> Iterator[str]:
    for pattern in wanted.globs:
        if unreadable := inventory.look(pattern).unreadable:
            yield unreadable
        if pattern in inventory.hanging:
            yield f"looking at {pattern} does not end"


def _wrong_types(resource: Resource, own: set[str], inventory: Inventory) -> Iterator[NotOffered]:
    # Only for paths written out: `/dev/*` finds folders too, and nobody wants to read of them.
    for paths in (one.candidates for one in resource.match):
        if not isinstance(paths, PathSelector):
            continue
        for pattern in paths.globs:
            for found in () if glob.has_wildcard(pattern) else inventory.found(pattern):
                if found.type not in paths.types and found.key not in own:
                    wanted = " or ".join(paths.types)
                    text = f"its type is {found.type}, wanted {wanted} (see the key type)"
                    reason = Reason(Code.WRONG_TYPE, text)
                    yield NotOffered(path=found.printable_path, key=found.key, reason=reason)


def find_candidates(
    selectors: Sequence[Selector],
    resource: Resource,
    inventory: Inventory,
    *,
    wary: bool = False,
    misses: dict[int, Misses] | None = None,
) -> list[Candidate]:
    """Return what any of the selectors takes, each thing once, in natural order of its path.

    ``wary``: with a ``doubt`` also what one may take, for all that can be known. ``misses`` gets
    what is not taken, by the places of the selectors.
    """
    found: dict[str, list[tuple[int, Candidate]]] = {}
    for i, selector in enumerate(selectors):
        missed = Misses()
        if misses is not None:
            misses[i] = missed
        for thing in _things(selector, inventory):
            syspath = _syspath(thing)
            if syspath is not None and inventory.host.awaited(syspath):
                continue
            one = _fit(selector, thing, resource, inventory, wary=wary)
            if isinstance(one, Condition):
                missed.add(thing, one)
            elif one is not None:
                found.setdefault(one.key, []).append((i, one))
    candidates = map(_under_one_name, found.values())
    return sorted(candidates, key=lambda one: natural_key(one.path))


def _under_one_name(found: Sequence[tuple[int, Candidate]]) -> Candidate:
    def rank(one: Candidate) -> tuple[object, ...]:
        # What is certain counts before what is not, a name that may be handed out before one that
        # may not, a link before a node.
        is_refused = bool(one.file.refusal)
        return bool(one.doubt), is_refused, not one.file.is_link, natural_key(one.path)

    best = min((one for _, one in found), key=rank) if len(found) > 1 else found[0][1]
    return replace(best, entries=frozenset(i for i, _ in found))


def _could_look_at(selector: Selector, candidate: Candidate) -> bool:
    """Return whether a selector may look at a candidate, by all names of it that are known."""
    wanted, file, device = selector.candidates, candidate.file, candidate.device
    if isinstance(wanted, PathSelector):
        names = {file.path, file.target}
        if device is not None:
            names |= {device.device_file, *device.links}
        return any(glob.matches_any(wanted.globs, name) for name in names)
    if device is None:
        return False
    subsystems = subsystem_globs(wanted)
    return not subsystems or glob.matches_any(subsystems, device.subsystem)


def _things(selector: Selector, inventory: Inventory) -> Iterator[FoundFile | SysDevice]:
    """Yield what a selector looks at."""
    candidates = selector.candidates
    if isinstance(candidates, PathSelector):
        for pattern in candidates.globs:
            yield from inventory.found(pattern)
    else:
        for subsystem in _subsystems(subsystem_globs(candidates), inventory.host):
            yield from inventory.host.members(subsystem)


def _subsystems(wanted: tuple[str, ...], host: Host) -> list[str]:
    if wanted and not any(map(glob.has_wildcard, wanted)):
        return [glob.unescape(name) for name in wanted]
    every = host.subsystems()
    return [name for name in every if not wanted or glob.matches_any(wanted, name)]


def _syspath(thing: FoundFile | SysDevice) -> str | None:
    return thing.syspath if isinstance(thing, SysDevice) else thing.identity.syspath


def _fit(
    selector: Selector,
    thing: FoundFile | SysDevice,
    resource: Resource,
    inventory: Inventory,
    *,
    wary: bool,
) -> Candidate | Condition | None:
    """Return the file or device as a candidate, or what does not hold; None if it vanished."""
    # What is known of it first: a device file need not be looked at for nothing.
    doubts = _doubts(unmet_by(selector, thing, inventory), inventory.host, wary=wary)
    if isinstance(doubts, Condition):
        return doubts
    candidate = candidate_of(thing, inventory)
    if candidate is None:
        return None
    on_values = unmet_values(selector, candidate, resource, inventory, wary=wary)
    more = _doubts(on_values, inventory.host, wary=wary)
    if isinstance(more, Condition):
        return more
    doubt = next(iter((*doubts, *more)), "")
    return replace(candidate, doubt=doubt) if doubt else candidate


def _doubts(unmet: Iterable[Condition], host: Host, *, wary: bool) -> list[str] | Condition:
    """Return why nobody can know whether conditions hold, or the first that surely does not."""
    doubts = []
    for condition in unmet:
        why = why_unknown(condition, host) if wary else ""
        if not why:
            return condition
        doubts.append(why)
    return doubts


def unmet_by(
    selector: Selector, thing: FoundFile | SysDevice, inventory: Inventory
) -> Iterator[Condition]:
    """Yield the conditions that do not hold for a file or device, but for those on values."""
    wanted, host = selector.candidates, inventory.host
    if isinstance(thing, SysDevice):
        if isinstance(wanted, PathSelector):
            return
        if not isinstance(wanted, UdevSelector) and not is_candidate_of(wanted, thing):
            yield Condition(key=wanted.kind, wanted=("*",), found=None, where=thing.syspath)
        yield from unmet(wanted, thing, host, sitting=thing)
        yield from unmet_hardware(selector.hardware, thing, host)
    elif isinstance(wanted, PathSelector) and thing.type not in wanted.types:
        types, where = tuple(map(str, wanted.types)), thing.printable_path
        yield Condition(key="type", wanted=types, found=str(thing.type), where=where)
    else:
        device = of_file(thing, inventory).device
        yield from unmet_hardware(selector.hardware, device, host, thing.printable_path)


def candidate_of(thing: FoundFile | SysDevice, inventory: Inventory) -> Candidate | None:
    """Make a candidate of a file or device; None if it vanished just now."""
    if isinstance(thing, SysDevice):
        return of_device(thing, inventory)
    return of_file(thing, inventory)


def of_file(found: FoundFile, inventory: Inventory) -> Candidate:
    """Make a candidate of a file."""
    syspath = found.identity.syspath
    device = None if syspath is None else inventory.host.device(syspath)
    return Candidate(file=found, device=device)


def of_device(device: SysDevice, inventory: Inventory) -> Candidate | None:
    """Make a candidate of a device of sysfs; None if it vanished just now."""
    path = device.device_file if device.number is not None else ""
    file = inventory.file(path) if path else None
    if file is None or file.key != device.key:
        # Its file is not there (yet), or is another one's.
        file = inventory.file(device.syspath)
    return None if file is None else Candidate(file=file, device=device)


def unmet_values(
    selector: Selector,
    candidate: Candidate,
    resource: Resource,
    inventory: Inventory,
    *,
    wary: bool = False,
) -> Iterator[Condition]:
    """Yield the conditions on values that do not hold for a candidate.

    ``wary``: whatever nobody can know is unknown, also where a value has a default.
    """
    if not selector.values:
        return
    names = Names(candidate, resource=resource, inventory=inventory, wary=wary)
    for name, globs in selector.values.items():
        found, why, unknown = None, "", False
        try:
            found = names.get_text("value", name)
        except UnusableValueError as error:
            why, unknown = str(error), not isinstance(error, LackingValueError)
        condition = Condition(
            key=f"values.{name}",
            wanted=globs,
            found=found,
            where=candidate.file.printable_path,
            why=why,
            unknown=unknown,
        )
        if not condition.holds:
            yield condition
