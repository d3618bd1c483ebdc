"""Matching: what the selectors of a resource match, which resource gets it, and why a resource has
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.devicelist import refused
from genericdp.devices.hardware import KINDS
from genericdp.devices.selectors import (
    Hidden,
    complaint,
    conditions_before,
    select,
    selector_text,
    shown,
)
from genericdp.model import PathSelector, SysSelector
from genericdp.printing import first_few, plural, printable, shortened
from genericdp.reasons import Code, Reason
from genericdp.template import templates_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.device import Unmade
    from genericdp.devices.devicelist import Entry, Subject
    from genericdp.devices.inventory import Candidate, FoundFile, Identity, Inventory
    from genericdp.devices.selectors import Misses
    from genericdp.model import Candidates, Resource, Selector

_EXCLUDED = Reason(Code.EXCLUDED, "excluded by the config")
_MAX_LISTED = 3
_MAX_SELECTOR = 160
"""Maximum length of a selector in a message: it may have a thousand globs."""


_BLAMED: Mapping[Code, tuple[str, str]] = {
    Code.EXCLUDED: ("all that is matched is excluded by", "exclude"),
    Code.UNDECIDED: ("it is not known what matches", "match"),
    Code.NOT_OFFERED: ("", ""),
}
"""The sentence for each cause; for other causes, that nothing matches."""
_NO_MATCH = ("nothing on this node matches", "match")


@dataclass(frozen=True, kw_only=True, slots=True)
class Excluded:
    """The hardware that a resource must not match, nor inject with another device.

    An entry that cannot be checked excludes, too: each has its index in ``exclude``, and why it is
    unknown whether it matches; empty if it certainly does.
    """

    entries: Mapping[str, Sequence[tuple[int, str]]]
    """The entries by the key and by the syspath of what they match."""
    hidden: Sequence[tuple[int, str]]
    """Entries that may match anything, because something that they need cannot be read."""

    def reason(self, file: FoundFile) -> Reason | None:
        """Return why the file is excluded; None if it is not."""
        if (entry := self.entry(file)) is None:
            return None
        _, why = entry
        return Reason(Code.UNREADABLE, f"may be excluded, but {why}") if why else _EXCLUDED

    def entry(self, file: FoundFile) -> tuple[int, str] | None:
        """Return the first entry that certainly matches the file, else the first that may."""
        names = _names_of(file) if self.entries else ()
        found = [entry for name in names for entry in self.entries.get(name, ())] + [*self.hidden]
        return min(found, key=lambda entry: (bool(entry[1]), entry[0]), default=None)


def _names_of(file: FoundFile) -> Iterator[str]:
    """Yield the key of a thing, its syspath and those above: a child is excluded with its
    parent.
    """
    yield file.key
    syspath = file.identity.syspath
    while syspath:
        yield syspath
        syspath = syspath.rpartition("/")[0]


def excluded(resource: Resource, inventory: Inventory) -> Excluded:
    """Return what the ``exclude`` of a resource matches, or may match."""
    found = select(resource.exclude, resource, inventory)
    entries: dict[str, list[tuple[int, str]]] = {}
    for candidate in found.candidates:
        for name in {candidate.key, candidate.file.identity.syspath or candidate.key}:
            entries.setdefault(name, []).extend(candidate.entries.items())
    return Excluded(entries=entries, hidden=[(i, selector.why) for i, selector in found.hidden])


@dataclass(slots=True)
class Owners:
    """Candidates that earlier resources of a config have, by key.

    A resource claims what it matches or may match (``Match.unreadable``). A resource that cannot be
    decided keeps what its last list owned; if there was none, everything that its selectors might
    match is reserved. Listed devices that are absent now (``_Pass._absent`` of decide.py) keep
    their IDs and nodes.
    """

    claims: dict[str, tuple[Resource, bool]] = field(default_factory=dict)
    """The owner of each candidate, and whether that is certain: something may be unreadable."""
    reserved: list[tuple[Resource, Hidden]] = field(default_factory=list)
    """Globs and subsystems of resources whose matches are unknown."""
    listed: Callable[[], Mapping[Identity, Collection[str]]] = dict
    """Return which resources have a thing on their last lists: there it stays, even if something is
    uncertain now.
    """

    def enter(self, resource: Resource, keys: Iterable[str], found: Match | None = None) -> None:
        """Give a resource what no earlier one has, and reserve what it may match."""
        for key in keys:
            is_sure = found is None or key not in found.unreadable
            self.claims.setdefault(key, (resource, is_sure))
        self.reserved += ((resource, hidden) for hidden in (found.hidden if found else ()))

    def reserve(self, resource: Resource) -> None:
        """Reserve everything that a resource that has never been decided might match."""
        self.reserved += ((resource, Hidden(entry.candidates, "")) for entry in resource.match)

    def why_not(self, candidate: Candidate, resource: Resource) -> Reason | None:
        """Return why a resource cannot have a candidate; None if it can."""
        owner, is_sure = self.claims.get(candidate.key, (None, True))
        if not is_sure and self._has(resource, candidate.file.identity):
            owner = None
        if owner is None or not (owner.exclusive or resource.exclusive):
            reserved = self.why_reserved(candidate, resource, candidate.file.identity)
            return Reason(Code.TAKEN, reserved) if reserved else None
        hint = ""
        if not (owner.exclusive and resource.exclusive):
            where = "here" if resource.exclusive else "there"
            hint = f" (both can have it only with exclusive: false {where}, too)"
        text = f"belongs to resource {owner.name}, which comes first in the config{hint}"
        return Reason(Code.TAKEN, text, owner.name)

    def why_reserved(self, candidate: Candidate, resource: Resource, part_of: Identity) -> str:
        """Return which resource might match a part of a device, in words; empty if none."""
        for owner, hidden in self.reserved:
            if not (owner.exclusive or resource.exclusive):
                continue
            is_listed = bool(hidden.why) and self._has(resource, part_of)
            if not is_listed and hidden.may_hold(candidate):
                why = f", but {hidden.why}" if hidden.why else " and cannot be decided"
                return f"may belong to resource {owner.name}, which comes first in the config{why}"
        return ""

    def _has(self, resource: Resource, identity: Identity) -> bool:
        return resource.name in self.listed().get(identity, ())


def for_node(resources: Iterable[Resource], node_name: str) -> tuple[Resource, ...]:
    """Return the resources that apply on this node; if names are equal, the first that fits."""
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
    names = dict.fromkeys(name for resource in resources for name in resource.node_names)
    listed = ", ".join(map(printable, names))
    return f"no resource is for this node {printable(node_name)} (nodeNames: {listed})"


def reads_properties(resource: Resource) -> bool:
    """Return whether the resource uses udev records, not only what the kernel reports."""
    selectors = (*resource.match, *resource.exclude)
    asking = (part for entry in selectors for part in (entry.candidates, *entry.hardware))
    if any(isinstance(part, SysSelector) and part.properties for part in asking):
        return True
    return any(
        reference.scope == "property"
        for template in templates_of(resource)
        for reference in template.references
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """The candidates of one resource, and why others are not offered."""

    members: tuple[Candidate, ...]
    refused: tuple[Entry[Unmade], ...]
    excluded: Excluded
    misses: Mapping[int, Misses]
    """Candidates that the entries of ``match`` certainly do not match."""
    unreadable: frozenset[str]
    """The keys of candidates that are not offered because something cannot be read."""
    hidden: tuple[Hidden, ...]
    """Places that the selectors cannot read completely: no later resource gets what may be there.
    """

    @property
    def claimed(self) -> frozenset[str]:
        """The keys of the candidates that no later resource gets."""
        return self.unreadable.union(member.key for member in self.members)


def match(resource: Resource, owners: Owners, inventory: Inventory) -> Match:
    """Return what a resource matches among the candidates that no earlier one has (D8).

    A candidate that cannot be read is not offered. It may become readable: meanwhile no later entry
    gets it, and no later resource.
    """
    out = excluded(resource, inventory)
    found = select(resource.match, resource, inventory)
    members: list[Candidate] = []
    not_offered: list[Entry[Unmade]] = []
    unreadable = set[str]()
    for candidate in found.candidates:
        reason = out.reason(candidate.file)
        if reason is None and candidate.file.refusal:
            reason = Reason(Code.FORBIDDEN, candidate.file.refusal)
        reason = reason or owners.why_not(candidate, resource)
        if reason is None and (unknown := found.why_unknown(candidate)) is not None:
            i, why = unknown
            reason = Reason(Code.UNREADABLE, f"may be of match[{i}], but {why}")
        if reason is None:
            members.append(candidate)
            continue
        not_offered.append(refused(candidate.file.printable_path, candidate.key, reason))
        if reason.code is Code.UNREADABLE:
            unreadable.add(candidate.key)
    not_offered += _wrong_types(resource, {member.key for member in members}, inventory)
    return Match(
        members=tuple(members),
        refused=tuple(not_offered),
        excluded=out,
        misses=found.misses,
        unreadable=frozenset(unreadable - owners.claims.keys()),
        hidden=tuple(hidden for _, hidden in found.hidden),
    )


def _wrong_types(
    resource: Resource, own: set[str], inventory: Inventory
) -> Iterator[Entry[Unmade]]:
    # Only for paths written out: `/dev/*` finds directories too, and a line for each would hide the
    # rest.
    for paths in (selector.candidates for selector in resource.match):
        if not isinstance(paths, PathSelector):
            continue
        for pattern in paths.globs:
            for found in () if glob.has_wildcard(pattern) else inventory.found(pattern):
                if found.type not in paths.types and found.key not in own:
                    wanted = " or ".join(paths.types)
                    text = f"its type is {found.type}, wanted {wanted} (see the key type)"
                    reason = Reason(Code.WRONG_TYPE, text)
                    yield refused(found.printable_path, found.key, reason)


def why_empty(resource: Resource, found: Match, not_offered: Sequence[Entry[Subject]]) -> Reason:
    """Return why a resource whose devices have been decided has none; nothing is read for it."""
    paths = [printable(entry.device.path) for entry in not_offered]
    codes = {reason.code for entry in not_offered for reason in entry.reasons}
    if codes == {Code.EXCLUDED}:
        cause, seen = Code.EXCLUDED, first_few(paths, _MAX_LISTED)
    elif paths:
        cause, first = Code.NOT_OFFERED, f"{paths[0]}: {not_offered[0].text}"
        seen = f"{len(paths)} matched, but not offered: {first}"
    elif found.hidden:
        cause, seen = Code.UNDECIDED, found.hidden[0].why
    else:
        cause, seen = _why_not_matched(resource, found)
    return _reason(cause, resource, seen)


def why_undecided(resource: Resource, failed: str) -> Reason:
    """Return why a resource that cannot be decided has no devices."""
    return _reason(Code.UNDECIDED, resource, failed)


def _reason(cause: Code, resource: Resource, seen: str) -> Reason:
    """Return a cause as a sentence that names the responsible selectors.

    Only a different cause or different selectors count as news; different devices do not.
    """
    text, key = _BLAMED.get(cause, _NO_MATCH)
    selectors: Sequence[Selector] = resource.exclude if key == "exclude" else resource.match
    texts = [
        shortened(selector_text(selector), _MAX_SELECTOR) for selector in selectors[:_MAX_LISTED]
    ]
    blamed = f"{text} {_entries(resource, key, texts, len(selectors))}" if key else ""
    return Reason(cause, ": ".join(filter(None, (blamed, seen))), " or ".join(texts))


def _why_not_matched(resource: Resource, found: Match) -> tuple[Code, str]:
    """Return why nothing meets the conditions of the ``match`` entry that comes closest."""
    missed = []
    for i, misses in found.misses.items():
        selector = resource.match[i]
        if key := misses.nearest(selector):
            cause, seen = _why_missed(selector, misses, key)
            missed.append((_CLOSER.index(cause), conditions_before(selector, key), -i, seen))
    if not missed:
        return Code.NOTHING_FOUND, ""
    rank, _, place, seen = max(missed)
    beside = f"match[{-place}] comes closest: " if len(resource.match) > 1 else ""
    return _CLOSER[rank], f"{beside}{seen}"


_CLOSER = (Code.NOT_MATCHED, Code.VALUE_MISSING)
"""The conditions in order: the closest of several selectors is the one that fails at the last of
these.
"""


def _entries(resource: Resource, key: str, texts: Sequence[str], count: int) -> str:
    """Return the selectors under a key with their places; if there are many, the first few."""
    lines = resource.place.entries.get(key, ())
    named = [
        f"{key}[{i}] {{{text}}}"
        f" ({resource.place.file}:{lines[i] if i < len(lines) else resource.place.line})"
        for i, text in enumerate(texts)
    ]
    more = count - len(texts)
    return " or ".join(named) + (f" or {plural(more, 'other selector')}" if more > 0 else "")


def _why_missed(selector: Selector, misses: Misses, key: str) -> tuple[Code, str]:
    """Return the condition that no device of a selector meets, and the values found."""
    failed = [condition for _, condition in misses.samples[key].values()]
    texts = [shown(condition.found) for condition in failed if condition.found is not None]
    closest = next((condition for condition in failed if condition.found is None), failed[0])
    cause = Code.NOT_MATCHED
    if key.startswith("values.") and not texts:
        cause = Code.VALUE_MISSING
    elif texts:
        closest = replace(failed[0], found=first_few(texts, _MAX_LISTED))
    looked = sum(n for kind, n in misses.counts.items() if kind != selector.candidates.kind)
    return cause, f"{plural(looked, _noun(selector.candidates))}, none fits: {complaint(closest)}"


def _noun(wanted: Candidates) -> str:
    if isinstance(wanted, SysSelector) and len(found := wanted.keys.get("subsystem", ())) == 1:
        return f"{glob.unescape(found[0])} device"
    return KINDS[wanted.kind].noun if wanted.kind in KINDS else "file"
