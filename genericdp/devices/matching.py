"""Which resource takes which candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.device import NotOffered
from genericdp.model import PathSelector
from genericdp.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.inventory import FoundFile, Inventory
    from genericdp.model import Resource, Selector


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One thing of the host under all the names that the selectors found it by."""

    path: str
    """The first link in natural order if there is one, else the first name."""
    file: FoundFile

    @property
    def key(self) -> str:
        """Equal for all names of one thing."""
        return self.file.key


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


def selector_globs(resources: Iterable[Resource]) -> frozenset[str]:
    """Give every glob that must be looked at to match these resources."""
    return frozenset(
        pattern
        for resource in resources
        for selector in (*resource.match, *resource.exclude)
        for pattern in path_selector(selector).globs
    )


def match(resources: Sequence[Resource], inventory: Inventory) -> Matches:
    """Give every candidate to the first resource whose selectors take it.

    The order of the resources is that of the config; a candidate has one owner (D8).
    """
    owners: dict[str, str] = {}
    members: dict[str, tuple[Candidate, ...]] = {}
    excluded: dict[str, Excluded] = {}
    refused: list[NotOffered] = []
    for resource in resources:
        out = _excluded(resource.exclude, inventory)
        taken = []
        for candidate in _candidates(resource, inventory):
            reason = _refusal(candidate, out, owners.get(candidate.key, ""))
            if reason:
                refused.append(not_offered(resource, candidate, reason))
            else:
                owners[candidate.key] = resource.name
                taken.append(candidate)
            if out.unknown:
                # It may be ours again in a moment: nobody else gets it meanwhile.
                owners.setdefault(candidate.key, resource.name)
        members[resource.name] = tuple(taken)
        excluded[resource.name] = out
        refused += _wrong_types(resource, taken, inventory)
    return Matches(members=members, refused=tuple(refused), excluded=excluded)


def not_offered(resource: Resource, candidate: Candidate, reason: str) -> NotOffered:
    """Say why a candidate of the resource is not offered."""
    path = candidate.file.shown
    return NotOffered(resource=resource.name, path=path, key=candidate.key, reason=reason)


def _excluded(selectors: Sequence[Selector], inventory: Inventory) -> Excluded:
    if not selectors:
        return NONE_EXCLUDED
    found = list(_matched(selectors, inventory))
    globs = [pattern for selector in selectors for pattern in path_selector(selector).globs]
    return Excluded(
        keys=frozenset(file.key for file in found),
        syspaths=frozenset(file.identity.syspath for file in found if file.identity.syspath),
        unknown=next((pattern for pattern in globs if pattern in inventory.hanging), ""),
    )


def _refusal(candidate: Candidate, excluded: Excluded, owner: str) -> str:
    if reason := excluded.reason(candidate.file) or candidate.file.trouble:
        return reason
    return f"belongs to resource {owner}, which comes first in the config" if owner else ""


def _candidates(resource: Resource, inventory: Inventory) -> list[Candidate]:
    names: dict[str, list[FoundFile]] = {}
    for found in _matched(resource.match, inventory):
        names.setdefault(found.key, []).append(found)
    candidates = [_under_one_name(files) for files in names.values()]
    return sorted(candidates, key=lambda candidate: natural_key(candidate.path))


def _under_one_name(files: list[FoundFile]) -> Candidate:
    if len(files) == 1:
        return Candidate(path=files[0].path, file=files[0])
    # A name that may be handed out counts before one that may not.
    best = min(
        files, key=lambda file: (bool(file.trouble), not file.is_link, natural_key(file.path))
    )
    return Candidate(path=best.path, file=best)


def _matched(selectors: Iterable[Selector], inventory: Inventory) -> Iterator[FoundFile]:
    for selector in selectors:
        paths = path_selector(selector)
        for pattern in paths.globs:
            for found in inventory.found(pattern):
                if found.type in paths.types:
                    yield found


def _wrong_types(
    resource: Resource, taken: Iterable[Candidate], inventory: Inventory
) -> Iterator[NotOffered]:
    keys = {candidate.key for candidate in taken}
    # Only for paths written out: `/dev/*` finds folders too, and nobody wants to read of them.
    for selector in resource.match:
        paths = path_selector(selector)
        for pattern in paths.globs:
            for found in () if glob.has_wildcard(pattern) else inventory.found(pattern):
                if found.type not in paths.types and found.key not in keys:
                    wanted = " or ".join(paths.types)
                    yield NotOffered(
                        resource=resource.name,
                        path=found.shown,
                        key=found.key,
                        reason=f"its type is {found.type}, wanted {wanted} (see the key type)",
                    )


def path_selector(selector: Selector) -> PathSelector:
    """Give what names the candidates: paths, until the other selectors are built."""
    if not isinstance(selector.candidates, PathSelector):
        # A config with other selectors is refused before it gets here: genericdp.config.unbuilt.
        raise TypeError(f"cannot match {type(selector.candidates).__name__}")
    return selector.candidates
