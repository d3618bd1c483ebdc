"""Which resource takes which candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.candidates import Candidate, taken
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
    unknown: str = ""
    """A glob of ``exclude`` that does not answer: nothing can be said then."""

    def reason(self, file: FoundFile) -> str:
        """Say why the file is out; empty if it is not."""
        if file.key in self.keys or self._lies_below(file.identity.syspath):
            return "excluded by the config"
        if self.unknown:
            return f"may be excluded, but looking at {self.unknown} does not end"
        return ""

    def _lies_below(self, syspath: str | None) -> bool:
        # What sits on something excluded is excluded too: a partition with its disk.
        while self.syspaths and syspath:
            if syspath in self.syspaths:
                return True
            syspath = syspath.rpartition("/")[0]
        return False


NONE_EXCLUDED = Excluded()


@dataclass(frozen=True, kw_only=True, slots=True)
class Matches:
    """What each resource takes, by its name, and what it cannot take."""

    members: Mapping[str, tuple[Candidate, ...]]
    refused: tuple[NotOffered, ...] = ()
    excluded: Mapping[str, Excluded] = field(default_factory=dict)
    """What must not even be injected, by resource."""


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
        if out.unknown:
            # It may be ours again in a moment: nobody else gets it meanwhile.
            owners = {one.file.key: resource.name for one in candidates} | owners
        members[resource.name] = tuple(own)
        excluded[resource.name] = out
        refused += _wrong_types(resource, own, inventory)
    return Matches(members=members, refused=tuple(refused), excluded=excluded)


def not_offered(resource: Resource, candidate: Candidate, reason: str) -> NotOffered:
    """Say why a candidate of the resource is not offered."""
    path = candidate.file.shown
    return NotOffered(
        resource=resource.name, path=path, key=candidate.key, reason=shortened(reason, MOST_REASON)
    )


def _excluded(resource: Resource, inventory: Inventory, node_name: str) -> Excluded:
    if not resource.exclude:
        return NONE_EXCLUDED
    found = taken(resource.exclude, resource, inventory, node_name)
    globs = path_globs(resource.exclude)
    syspaths = (candidate.file.identity.syspath for candidate in found)
    now = Excluded(
        keys=frozenset(candidate.key for candidate in found),
        syspaths=frozenset(syspath for syspath in syspaths if syspath),
        unknown=next((pattern for pattern in globs if pattern in inventory.hanging), ""),
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
