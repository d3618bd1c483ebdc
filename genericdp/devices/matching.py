"""Which resource takes which candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.candidates import Candidate, taken, unseen
from genericdp.devices.device import MOST_REASON, NotOffered
from genericdp.model import PathSelector
from genericdp.printing import shortened
from genericdp.template import Template

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.devices.inventory import FoundFile, Inventory
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
    """Give the resources that apply on this node: of equal names the first that fits."""
    fitting: dict[str, Resource] = {}
    for resource in resources:
        if not resource.node_names or glob.matches_any(resource.node_names, node_name):
            fitting.setdefault(resource.name, resource)
    return tuple(fitting.values())


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


def match(resources: Sequence[Resource], inventory: Inventory, node_name: str) -> Matches:
    """Give every candidate to the first resource whose selectors take it.

    The order of the resources is that of the config; a candidate has one owner (D8).
    """
    owners: dict[str, str] = {}
    members: dict[str, tuple[Candidate, ...]] = {}
    excluded: dict[str, Excluded] = {}
    withheld: dict[str, frozenset[str]] = {}
    refused: list[NotOffered] = []
    for resource in resources:
        out = _excluded(resource, inventory, node_name)
        own = []
        candidates = taken(resource.match, resource, inventory, node_name)
        for candidate in candidates:
            file = candidate.file
            # Nearly all there are: ten thousand calls would take a while.
            if out is NONE_EXCLUDED and not file.trouble and file.key not in owners:
                own.append(candidate)
                continue
            reason = _refusal(candidate, out, owners.get(file.key, ""))
            if reason:
                refused.append(not_offered(resource, candidate, reason))
            else:
                own.append(candidate)
        owners |= {one.file.key: resource.name for one in own}
        if out.unknown or out.doubts:
            # It may be ours again in a moment: nobody else gets it meanwhile.
            doubtful = frozenset(one.key for one in candidates if out.doubt(one.file))
            withheld[resource.name] = doubtful - owners.keys()
            owners = dict.fromkeys(doubtful, resource.name) | owners
        members[resource.name] = tuple(own)
        excluded[resource.name] = out
        refused += _wrong_types(resource, own, inventory)
    return Matches(members=members, refused=tuple(refused), excluded=excluded, withheld=withheld)


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
    now = Excluded(
        keys=frozenset(key for key, _ in certain),
        syspaths=frozenset(syspath for _, syspath in certain if syspath),
        doubts={name: one.doubt for one, its in names if one.doubt for name in its if name},
        unknown=unseen(resource.exclude, inventory),
    )
    # The very same object where it is equal: so what was made by it is known to be right.
    before: Excluded | None = inventory.memory.excluded.get(resource.name)
    if before == now:
        return before
    inventory.memory.excluded[resource.name] = now
    return now


def _refusal(candidate: Candidate, excluded: Excluded, owner: str) -> str:
    if reason := excluded.reason(candidate.file) or candidate.file.trouble:
        return reason
    return f"belongs to resource {owner}, which comes first in the config" if owner else ""


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
