"""The topology manager: hints for each resource, merged by a policy into NUMA nodes. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from genericdp.simulator.settings import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

NumaNodes = tuple[int, ...] | None
"""Of a device, as listed; None without a topology, which differs from an empty one (LAW-8)."""
Mask = int
"""A set of NUMA nodes: bit n stands for node n."""
_BITS = 64
"""Of the kubelet's masks: a node beyond, or below 0, is in none of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hint:
    """A way to give a container its devices of a resource."""

    nodes: Mask | None
    """None: any."""
    preferred: bool
    """No other way takes fewer nodes, even if all devices were free."""


Hints = tuple[Hint, ...]
"""All ways for a resource."""
NO_PREFERENCE: Hints = (Hint(nodes=None, preferred=True),)
IMPOSSIBLE: Hints = (Hint(nodes=None, preferred=False),)


def mask_of(nodes: Iterable[int]) -> Mask:
    """Return the set of these nodes."""
    return sum(1 << node for node in set(nodes) if 0 <= node < _BITS)


def hints_of(
    listed: Mapping[str, NumaNodes],
    *,
    free: Collection[str],
    amount: int,
    numa_nodes: Collection[int],
) -> Hints:
    """Return all ways to take that many devices; empty if no set of nodes has enough (LAW-8).

    A device counts for a set of nodes if any of its own is in it, and for none without nodes.
    """
    masks = {device_id: mask_of(nodes or ()) for device_id, nodes in listed.items()}
    known = mask_of(numa_nodes)
    used = mask_of(node for nodes in listed.values() for node in nodes or ()) & known
    all_devices = Counter(masks.values())
    free_devices = Counter(masks[i] for i in free if i in masks)
    subsets = list(_subsets(used or known))
    fewest = min(
        (one.bit_count() for one in subsets if _count(all_devices, one) >= amount),
        default=(used or known).bit_count(),
    )
    return tuple(
        Hint(nodes=one, preferred=one.bit_count() == fewest)
        for one in subsets
        if _count(free_devices, one) >= amount
    )


def _count(masks: Counter[Mask], nodes: Mask) -> int:
    return sum(count for mask, count in masks.items() if mask & nodes)


def _subsets(nodes: Mask) -> Iterator[Mask]:
    bits = [1 << bit for bit in range(_BITS) if nodes >> bit & 1]
    for size in range(1, len(bits) + 1):
        yield from map(sum, combinations(bits, size))


@dataclass(frozen=True, kw_only=True, slots=True)
class Affinity:
    """The decision of a policy for a container."""

    nodes: Mask | None
    """None: devices may come from anywhere."""
    admitted: bool


def affinity(
    policy: TopologyPolicy, resources: Iterable[Hints], *, numa_nodes: Collection[int]
) -> Affinity:
    """Merge the hints of a container's resources and decide on nodes and admission."""
    if policy is TopologyPolicy.NONE:
        return Affinity(nodes=None, admitted=True)  # the kubelet does not even ask for hints
    machine = mask_of(numa_nodes)
    single = policy is TopologyPolicy.SINGLE_NUMA_NODE
    best = _best([_on_one_node(one) if single else one for one in resources], machine)
    nodes = None if single and best.nodes == machine else best.nodes
    return Affinity(nodes=nodes, admitted=best.preferred or policy is TopologyPolicy.BEST_EFFORT)


def _on_one_node(hints: Hints) -> Hints:
    return tuple(
        hint
        for hint in hints
        if hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)
    )


def _best(resources: Sequence[Hints], machine: Mask) -> Hint:
    """Merge hints, one of each resource, in all combinations; return the best that has a node.

    A merged hint is the intersection. It is preferred if all of its parts are, on equal nodes.
    """
    # The intersection so far, the nodes common to all parts, and whether it is preferred so far.
    # A set of these stays small where the kubelet tries 255³ combinations.
    merged: set[tuple[Mask, Mask | None, bool]] = {(machine, None, True)}
    for hints in resources:
        merged = {_merge(one, hint) for one in merged for hint in hints}
    fewest = [
        min((one.nodes.bit_count() for one in hints if one.nodes is not None), default=0)
        for hints in resources
    ]
    wanted = max(fewest, default=0)
    best = min(
        (Hint(nodes=nodes, preferred=preferred) for nodes, _, preferred in merged if nodes),
        key=lambda hint: _rank(hint, wanted),
        default=None,
    )
    return best or Hint(nodes=machine, preferred=False)


def _merge(one: tuple[Mask, Mask | None, bool], hint: Hint) -> tuple[Mask, Mask | None, bool]:
    nodes, common, preferred = one
    preferred = preferred and hint.preferred
    if hint.nodes is not None:
        preferred = preferred and common in (None, hint.nodes)
        nodes, common = nodes & hint.nodes, hint.nodes
    return nodes, common if preferred else None, preferred


def _rank(hint: Hint, wanted: int) -> tuple[int, int, int, Mask]:
    """Return a sort key; the best hint is the lowest.

    Preferred hints come first, those with the fewest nodes before others. Then come hints with at
    most as many nodes as the most demanding resource needs (``wanted``), those with most nodes
    first; then larger ones, those with fewest nodes first. Ties go to the lower nodes.
    """
    nodes = hint.nodes or 0
    count = nodes.bit_count()
    if hint.preferred:
        return 0, 0, count, nodes
    if count > wanted:
        return 1, 1, count, nodes
    return 1, 0, wanted - count, nodes


def aligned(
    free: frozenset[str], listed: Mapping[str, NumaNodes], nodes: Mask | None
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the free devices inside the nodes decided on, those elsewhere, and the others.

    The others have no NUMA node, or node -1; all are, if there is nothing to align.
    """
    if nodes is None or not any(listed.values()):
        return frozenset(), frozenset(), free
    own = {device_id: listed.get(device_id) or () for device_id in free}
    inside = frozenset(i for i, numa in own.items() if mask_of(numa) & nodes)
    elsewhere = frozenset(i for i, numa in own.items() if set(numa) - {-1}) - inside
    return inside, elsewhere, free - inside - elsewhere
