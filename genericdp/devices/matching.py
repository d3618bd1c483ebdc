"""Which resource takes which candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.candidates import Candidate, could_be_meant, might_take, taken, unseen
from genericdp.devices.device import MOST_REASON, NotOffered
from genericdp.model import PathSelector
from genericdp.printing import printable, shortened
from genericdp.template import Template

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.devices.inventory import FoundFile, Inventory
    from genericdp.devices.sysdevice import SysDevice
    from genericdp.model import Resource, Selector


@dataclass(frozen=True, kw_only=True, slots=True)
class Excluded:
    """What a resource must not take, nor bring along with something else."""

    keys: frozenset[str] = frozenset()
    syspaths: frozenset[str] = frozenset()
    doubts: Mapping[str, str] = field(default_factory=dict)
    """Why nobody can know whether something is excluded, by its key and by its syspath."""
    unknown: str = ""
    """Why nobody can know that of anything."""

    def reason(self, file: FoundFile) -> str:
        """Return why the file is out; empty if it is not."""
        if self.is_certain_of(file):
            return "excluded by the config"
        doubt = self.doubt(file)
        return doubt and f"may be excluded, but {doubt}"

    def is_certain_of(self, file: FoundFile) -> bool:
        """Return whether the file is excluded for sure."""
        return file.key in self.keys or (
            bool(self.syspaths) and any(one in self.syspaths for one in _below(file))
        )

    def doubt(self, file: FoundFile) -> str:
        """Return why nobody can know whether the file is excluded; empty if anybody can."""
        if not (self.doubts or self.unknown) or self.is_certain_of(file):
            return ""
        names = (file.key, *_below(file))
        return next((self.doubts[one] for one in names if one in self.doubts), self.unknown)


def _below(file: FoundFile) -> Iterator[str]:
    """Give its folder in sysfs and all above: what sits on something is excluded with it."""
    syspath = file.identity.syspath
    while syspath:
        yield syspath
        syspath = syspath.rpartition("/")[0]


NONE_EXCLUDED = Excluded()


@dataclass(slots=True)
class Owners:
    """Which of the earlier resources of a config has a candidate, by its key."""

    names: dict[str, str] = field(default_factory=dict)
    reserved: dict[str, str] = field(default_factory=dict)
    """What a resource might take that could not be decided yet."""
    unseen: list[tuple[str, Selector]] = field(default_factory=list)
    """Selectors of such resources of which it is not even known what they look at."""

    def enter(self, resource: str, keys: Iterable[str]) -> None:
        """Let a resource have what none before it has."""
        for key in keys:
            self.names.setdefault(key, resource)

    def reserve(self, resource: Resource, inventory: Inventory, node_name: str) -> None:
        """Let nobody have what a resource might take; nothing of it may be known."""
        for selector in resource.match:
            ask = partial(might_take, selector, resource, inventory, node_name)
            keys = inventory.attempt(resource.name, ask)
            if keys is None:
                self.unseen.append((resource.name, selector))
            for key in keys or ():
                self.reserved.setdefault(key, resource.name)

    @property
    def have_reserved(self) -> bool:
        """Whether there is anything that an undecided resource might take."""
        return bool(self.reserved or self.unseen)

    def have_not(self, key: str) -> bool:
        """Tell whether it is at once clear that nobody has it."""
        return key not in self.names and not self.have_reserved

    def why_not(self, candidate: Candidate) -> str:
        """Return why a candidate is not free; empty: it is."""
        if owner := self.names.get(candidate.key):
            return f"belongs to resource {owner}, which comes first in the config"
        return self.why_reserved(candidate.file, candidate.device)

    def why_reserved(self, file: FoundFile, device: SysDevice | None) -> str:
        """Return which undecided resource might take it, in words; empty: none."""
        owner = self.reserved.get(file.key) or next(
            (name for name, selector in self.unseen if could_be_meant(selector, file, device)), ""
        )
        if not owner:
            return ""
        return (
            f"may belong to resource {owner}, which comes first in the config and cannot be decided"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Matches:
    """What each resource takes, by its name, and what it cannot take."""

    members: Mapping[str, tuple[Candidate, ...]]
    refused: tuple[NotOffered, ...] = ()
    excluded: Mapping[str, Excluded] = field(default_factory=dict)
    """What must not even be injected, by resource."""
    withheld: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The keys of what each resource takes unless it is excluded, which nobody can know."""


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
    """Give the globs of the selectors that go by path."""
    paths = (one.candidates for one in selectors if isinstance(one.candidates, PathSelector))
    return tuple(pattern for one in paths for pattern in one.globs)


def reads_properties(resource: Resource) -> bool:
    """Say whether the resource asks for what udev records, not only for what the kernel says."""
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
    """Give every template of a value of the model, however deep."""
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
    claimed: tuple[str, ...]
    """The keys of the candidates that no later resource gets."""
    withheld: frozenset[str] = frozenset()
    """The keys of what it takes unless it is excluded, which nobody can know."""


def match(resources: Sequence[Resource], inventory: Inventory, node_name: str) -> Matches:
    """Give every candidate to the first resource whose selectors take it.

    The order of the resources is that of the config; a candidate has one owner (D8).
    """
    owners, found = Owners(), {}
    for resource in resources:
        found[resource.name] = one = match_one(resource, owners, inventory, node_name)
        owners.enter(resource.name, one.claimed)
    return Matches(
        members={name: one.members for name, one in found.items()},
        refused=tuple(refusal for one in found.values() for refusal in one.refused),
        excluded={name: one.excluded for name, one in found.items()},
        withheld={name: one.withheld for name, one in found.items()},
    )


def match_one(resource: Resource, owners: Owners, inventory: Inventory, node_name: str) -> Match:
    """Return what a resource takes of what no earlier one has."""
    out = _excluded(resource, inventory, node_name)
    own: list[Candidate] = []
    refused: list[NotOffered] = []
    candidates = taken(resource.match, resource, inventory, node_name)
    for candidate in candidates:
        file = candidate.file
        # Nearly all there are: ten thousand calls would take a while.
        if out is NONE_EXCLUDED and not file.trouble and owners.have_not(file.key):
            own.append(candidate)
            continue
        reason = out.reason(file) or file.trouble or owners.why_not(candidate)
        if reason:
            refused.append(not_offered(resource, candidate, reason))
        else:
            own.append(candidate)
    refused += _wrong_types(resource, own, inventory)
    withheld: frozenset[str] = frozenset()
    if out.unknown or out.doubts:
        # It may be ours again in a moment: nobody else gets it meanwhile.
        doubtful = frozenset(one.key for one in candidates if out.doubt(one.file))
        withheld = doubtful - owners.names.keys()
    return Match(
        members=tuple(own),
        refused=tuple(refused),
        excluded=out,
        claimed=(*(one.file.key for one in own), *withheld),
        withheld=withheld,
    )


def not_offered(resource: Resource, candidate: Candidate, reason: str) -> NotOffered:
    """Say why a candidate of the resource is not offered."""
    path = candidate.file.shown
    return NotOffered(
        resource=resource.name, path=path, key=candidate.key, reason=shortened(reason, MOST_REASON)
    )


def _excluded(resource: Resource, inventory: Inventory, node_name: str) -> Excluded:
    if not resource.exclude:
        return NONE_EXCLUDED
    found = taken(resource.exclude, resource, inventory, node_name, wary=True)
    names = [(one, (one.key, one.file.identity.syspath or "")) for one in found]
    certain = [its for one, its in names if not one.doubt]
    return Excluded(
        keys=frozenset(key for key, _ in certain),
        syspaths=frozenset(syspath for _, syspath in certain if syspath),
        doubts={name: one.doubt for one, its in names if one.doubt for name in its if name},
        unknown=unseen(resource.exclude, inventory),
    )


def _wrong_types(
    resource: Resource, own: Iterable[Candidate], inventory: Inventory
) -> Iterator[NotOffered]:
    # Only for paths written out: `/dev/*` finds folders too, and nobody wants to read of them.
    for selector in resource.match:
        paths = selector.candidates
        if not isinstance(paths, PathSelector):
            continue
        for pattern in paths.globs:
            for found in () if glob.has_wildcard(pattern) else inventory.found(pattern):
                if found.type not in paths.types and all(found.key != one.key for one in own):
                    wanted = " or ".join(paths.types)
                    yield NotOffered(
                        resource=resource.name,
                        path=found.shown,
                        key=found.key,
                        reason=f"its type is {found.type}, wanted {wanted} (see the key type)",
                    )
