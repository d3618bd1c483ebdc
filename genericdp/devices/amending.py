"""A pass that decides only about what it was told of, and gives what one about all would give.

It runs the same functions on the few things concerned, and adds what they give to what was decided
about the others. That is right as long as nothing ties the two together: where anything might (a
group, an excluded thing, a candidate that is refused, an id or a node that another one has), it
gives None, and all have to be decided about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from genericdp.devices.assembling import offers_of
from genericdp.devices.indexing import SEVERAL, claims
from genericdp.devices.inventory import Scope
from genericdp.devices.matching import path_globs
from genericdp.devices.offers import LIST_LIMIT_BYTES, next_change
from genericdp.model import PathSelector
from genericdp.natural import in_natural_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from genericdp.devices.assembling import Offers
    from genericdp.devices.device import NotOffered
    from genericdp.devices.holders import Holders
    from genericdp.devices.indexing import Standing
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.offers import Offer, Offered
    from genericdp.devices.remembering import Dropped
    from genericdp.model import Resource

_MOST_THINGS = 64
"""With more, a pass over all is not much dearer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Concerned:
    """What may be something else than in the last pass."""

    paths: frozenset[str] = frozenset()
    syspaths: frozenset[str] = frozenset()
    globs: frozenset[str] = frozenset()
    """Those that find something else."""
    decisions: tuple[Dropped, ...] = ()
    """Those that no longer hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Amended:
    """What has become of the offers."""

    offers: Offers
    changed: Mapping[str, frozenset[str]]
    """By resource: the ids of the devices that came, went or changed."""
    due: float | None


def amend(
    standing: Standing,
    concerned: Concerned,
    resources: Sequence[Resource],
    inventory: Inventory,
    node_name: str,
    *,
    now: float,
    holders: Holders | None,
) -> Amended | None:
    """Decide about what is concerned; None: all has to be decided about.

    ``resources`` are those of the last pass, and the memory of ``inventory`` is of them.
    """
    if holders is not standing.holders or (standing.due is not None and now >= standing.due):
        return None
    standing.bring_up_to_date()
    scope = _scope(standing, concerned)
    if scope is None:
        return None
    affected = [one for one in resources if _is_affected(standing, one, concerned)]
    ids = _ids(standing, affected, scope, inventory.memory.named_twice)
    if ids is None:
        return None
    before = {
        one.name: replace(
            standing.offers[one.name],
            offered={i: standing.offers[one.name].offered[i] for i in ids[one.name]},
        )
        for one in affected
    }
    inventory.scope = scope
    offers = offers_of(affected, inventory, node_name, before, now=now, holders=holders)
    if not inventory.memory.named_twice.isdisjoint(ids) or not _are_apart(standing, ids, offers):
        return None
    return _merged(standing, affected, ids, offers, now=now)


def _scope(standing: Standing, concerned: Concerned) -> Scope | None:
    """Give what has to be looked at: where a decision was dropped, what it was about."""
    paths, syspaths = set(concerned.paths), set(concerned.syspaths)
    for (kind, name, *_), key in concerned.decisions:
        if kind == "fit":
            paths.add(key)
            syspaths.add(key)
            continue
        device_id = standing.indexes[name].ids.get(key) if kind == "made" else None
        if not device_id:
            return None
        device = standing.offers[name].offered[device_id].device
        paths.add(device.path)
        syspaths |= {device.identity.syspath or device.path}
    if len(paths) + len(syspaths) > _MOST_THINGS:
        return None
    return Scope(paths=frozenset(paths), syspaths=frozenset(syspaths))


def _is_affected(standing: Standing, resource: Resource, concerned: Concerned) -> bool:
    if any(name == resource.name for (_, name, *_), _ in concerned.decisions):
        return True
    selectors = (*resource.match, *resource.exclude)
    if not concerned.globs.isdisjoint(path_globs(selectors)):
        return True
    known = standing.indexes[resource.name].ids
    if any(path in known for path in concerned.paths):
        return True  # also of a device that is gone: its reason says what is there now
    by_path = all(isinstance(one.candidates, PathSelector) for one in selectors)
    return not by_path and bool(concerned.syspaths)


def _ids(
    standing: Standing,
    affected: Iterable[Resource],
    scope: Scope,
    named_twice: Collection[str],
) -> dict[str, frozenset[str]] | None:
    """Give the devices that are concerned; None where what becomes of them concerns others."""
    ids = {}
    for resource in affected:
        offer = standing.offers[resource.name]
        if resource.group_by is not None or resource.exclude or resource.name in named_twice:
            return None
        if offer.not_offered or offer.arriving:
            return None
        known = standing.indexes[resource.name].ids
        found = frozenset(known[one] for one in scope.paths | scope.syspaths if one in known)
        if SEVERAL in found:
            return None
        ids[resource.name] = found
    return ids


def _are_apart(standing: Standing, ids: Mapping[str, Collection[str]], offers: Offers) -> bool:
    """Say whether nothing that was decided ties these devices to any other one."""
    refused = [one for offer in standing.offers.values() for one in offer.not_offered]
    for name, offer in offers.items():
        known, before = ids[name], standing.offers[name].offered
        if offer.not_offered or offer.arriving:
            return False
        if any(device_id in before for device_id in offer.offered.keys() - known):
            return False
        if standing.indexes[name].most_bytes_with(offer.offered) > LIST_LIMIT_BYTES:
            return False  # some may have to be left out
        here = [one for one in offer.offered.values() if one.gone_since is None]
        given_up = _all_claims(before[one] for one in known) - _all_claims(here)
        if given_up and refused:
            return False  # perhaps for the sake of that
        if not _is_free(standing, name, known, _all_claims(offer.offered.values()), refused):
            return False
    return True


def _is_free(
    standing: Standing,
    name: str,
    known: Collection[str],
    claimed: Collection[str],
    refused: Iterable[NotOffered],
) -> bool:
    """Say whether what these devices of a resource claim is theirs, or nobody's."""
    if not claimed:
        return True
    if any(one.is_about(text) for one in refused for text in claimed):
        return False
    for other, index in standing.indexes.items():
        owners = {index.ids[text] for text in claimed if text in index.ids}
        if owners - (set(known) if other == name else set()):
            return False
    return True


def _all_claims(offered: Iterable[Offered]) -> set[str]:
    return {text for one in offered for text in claims(one.device)}


def _merged(
    standing: Standing,
    affected: Iterable[Resource],
    ids: Mapping[str, Collection[str]],
    offers: Offers,
    *,
    now: float,
) -> Amended:
    merged, changes, dues = dict(standing.offers), {}, [standing.due]
    for resource in affected:
        name, offer = resource.name, offers[resource.name]
        before, index = standing.offers[name], standing.indexes[name]
        changed = frozenset(
            one
            for one in offer.offered.keys() | ids[name]
            if offer.offered.get(one) is not before.offered.get(one)
        )
        if not changed:
            continue
        for one in changed & before.offered.keys():
            index.leave(one, before.offered[one])
        for one in changed & offer.offered.keys():
            index.enter(one, offer.offered[one])
        index.offer = merged[name] = replace(before, offered=_with(before, offer, changed))
        changes[name] = changed
        dues.append(next_change(offer, resource.forget_after_seconds, now=now))
    due = min((one for one in dues if one is not None), default=None)
    return Amended(offers=merged, changed=changes, due=due)


def _with(before: Offer, offer: Offer, changed: frozenset[str]) -> dict[str, Offered]:
    """Give all devices in natural order; where none came it is that of before."""
    offered = {**before.offered, **offer.offered}
    for one in changed - offer.offered.keys():
        del offered[one]
    if changed <= before.offered.keys():
        return offered
    ordered = in_natural_order(offered, str, before=list(before.offered))
    return {one: offered[one] for one in ordered}
