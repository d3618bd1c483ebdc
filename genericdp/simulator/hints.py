"""Which sets of NUMA nodes can give a container its devices: the device manager's hints; pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from genericdp.simulator.devices import Told

Mask = int
"""A set of NUMA nodes: bit n stands for node n."""
_BITS = 64
"""The kubelet's masks have no more; a node beyond, or below 0, is in none of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hint:
    """One way to give a container its devices of one resource."""

    nodes: Mask | None
    """None: anywhere."""
    preferred: bool
    """No other way takes fewer nodes, even if all devices were free."""


NO_PREFERENCE = (Hint(nodes=None, preferred=True),)
IMPOSSIBLE = (Hint(nodes=None, preferred=False),)


def mask_of(nodes: Iterable[int]) -> Mask:
    """Give the set of these nodes."""
    mask = 0
    for node in nodes:
        if 0 <= node < _BITS:
            mask |= 1 << node
    return mask


def has_alignment(listed: Mapping[str, Told]) -> bool:
    """Say whether any device has NUMA nodes; if none has, the resource may come from anywhere."""
    return any(device.numa_nodes for device in listed.values())


def hints_of(
    listed: Mapping[str, Told],
    *,
    free: Collection[str],
    reusable: Collection[str],
    amount: int,
    numa_nodes: Collection[int],
) -> tuple[Hint, ...]:
    """Give all ways to take so many devices; none if no set of nodes has enough (LAW-8).

    Devices count for a set of nodes if any of theirs is in it; those without NUMA nodes count for
    none. Each set must have all that the pod's init containers leave it (``reusable``).
    """
    masks = {device_id: mask_of(device.numa_nodes or ()) for device_id, device in listed.items()}
    known = mask_of(numa_nodes)
    used = mask_of(n for device in listed.values() for n in device.numa_nodes or ()) & known
    everywhere = Counter(masks.values())
    # One with an empty topology, unlike one without any, is in no set and so rules out all.
    left = [masks[i] for i in reusable if i in masks and listed[i].numa_nodes is not None]
    there = Counter(masks[device_id] for device_id in free if device_id in masks)
    possible = list(_subsets(used or known))
    least = min(
        (one.bit_count() for one in possible if _inside(everywhere, one) >= amount),
        default=(used or known).bit_count(),
    )
    return tuple(
        Hint(nodes=one, preferred=one.bit_count() == least)
        for one in possible
        if all(mask & one for mask in left) and len(left) + _inside(there, one) >= amount
    )


def _inside(masks: Counter[Mask], nodes: Mask) -> int:
    return sum(count for mask, count in masks.items() if mask & nodes)


def _subsets(nodes: Mask) -> Iterator[Mask]:
    """Give every set of at least one of these nodes."""
    bits = [1 << bit for bit in range(_BITS) if nodes >> bit & 1]
    for size in range(1, len(bits) + 1):
        for chosen in combinations(bits, size):
            yield sum(chosen)
