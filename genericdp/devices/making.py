"""From the candidates of a resource to its devices; anew only where something has changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import TYPE_CHECKING

from genericdp.devices.device import Device, NotOffered
from genericdp.devices.grouping import group
from genericdp.devices.injecting import complete, draft
from genericdp.devices.offers import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.devices.candidates import Candidate
    from genericdp.devices.grouping import Group
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Excluded
    from genericdp.devices.offers import Offer
    from genericdp.model import Resource


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made, and of what."""

    members: tuple[Candidate, ...]
    excluded: Excluded
    result: Device | NotOffered

    def is_of(self, members: tuple[Candidate, ...], excluded: Excluded) -> bool:
        """Say whether it still is what would be made."""
        return (
            self.excluded is excluded
            and len(self.members) == len(members)
            and all(map(is_, self.members, members))
        )


def make(
    resource: Resource,
    candidates: Iterable[Candidate],
    excluded: Excluded,
    inventory: Inventory,
    node_name: str,
    before: Offer = NOTHING,
) -> list[Device | NotOffered]:
    """Give a device for each candidate or group of them, or why it is not offered.

    ``before``: what is on offer.
    """
    part = inventory.memory.part("made", resource.name)
    groups, refused = group(resource, candidates, inventory, node_name)
    results: list[Device | NotOffered] = []
    for one in groups:
        known = part.get(one.key)
        if known is None or not known.is_of(one.members, excluded):
            made = partial(_made, resource, one, excluded, inventory, node_name, before)
            first, *others = (m.file.identity.syspath or m.file.path for m in one.members)
            known = inventory.decide(part, one.key, first, made, others=others)
        results.append(known.result)
    return [*results, *refused]


def _made(
    resource: Resource,
    group: Group,
    excluded: Excluded,
    inventory: Inventory,
    node_name: str,
    before: Offer,
) -> _Made:
    result: Device | NotOffered
    drafted = draft(resource, group, inventory, node_name)
    if isinstance(drafted, NotOffered):
        return _Made(group.members, excluded, drafted)
    result = complete(drafted, inventory, excluded=excluded)
    if isinstance(result, Device) and (on_offer := before.offered.get(result.id)) is not None:
        # The very same object where it is equal: who compares it with the last one is soon done.
        result = on_offer.device if on_offer.device == result else result
    return _Made(group.members, excluded, result)
