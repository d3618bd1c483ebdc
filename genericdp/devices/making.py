"""From the candidates of a resource to its devices; anew only where something has changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.device import Device, NotOffered
from genericdp.devices.injecting import complete, draft

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.devices.candidates import Candidate
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Excluded
    from genericdp.model import Resource


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made, and of what."""

    candidate: Candidate
    excluded: Excluded
    result: Device | NotOffered


def make(
    resource: Resource,
    candidates: Iterable[Candidate],
    excluded: Excluded,
    inventory: Inventory,
    node_name: str,
) -> list[Device | NotOffered]:
    """Give a device for each candidate, or why it is not offered."""
    part = inventory.memory.part("made", resource.name)
    results = []
    for candidate in candidates:
        file = candidate.file
        known = part.get(file.key)
        if known is None or known.candidate is not candidate or known.excluded is not excluded:
            one = partial(_made, resource, candidate, excluded, inventory, node_name)
            known = inventory.decide(part, file.key, file.identity.syspath or file.path, one)
        results.append(known.result)
    return results


def _made(
    resource: Resource,
    candidate: Candidate,
    excluded: Excluded,
    inventory: Inventory,
    node_name: str,
) -> _Made:
    result: Device | NotOffered
    drafted = draft(resource, candidate, inventory, node_name)
    if isinstance(drafted, NotOffered):
        result = drafted
    else:
        result = complete(drafted, inventory, excluded=excluded)
    return _Made(candidate, excluded, result)
