"""Which NUMA nodes a container's devices are to come from: the topology manager's policies; pure.

What is modelled is the scope ``container`` without policy options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.simulator.hints import Hint, Mask, has_alignment, mask_of
from genericdp.simulator.settings import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from genericdp.simulator.devices import Told

Hints = tuple[Hint, ...]
"""The ways to give one resource."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Affinity:
    """What a policy decides for a container."""

    nodes: Mask | None
    """None: devices may come from anywhere."""
    admitted: bool


def affinity(
    policy: TopologyPolicy, resources: Sequence[Hints], *, numa_nodes: Collection[int]
) -> Affinity:
    """Decide for a container by the hints of each of its resources."""
    if policy is TopologyPolicy.NONE:
        return Affinity(nodes=None, admitted=True)
    machine = mask_of(numa_nodes)
    single = policy is TopologyPolicy.SINGLE_NUMA_NODE
    best = _best([_on_one_node(one) for one in resources] if single else resources, machine)
    nodes = None if single and best.nodes == machine else best.nodes
    return Affinity(nodes=nodes, admitted=best.preferred or policy is TopologyPolicy.BEST_EFFORT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Aligned:
    """Free devices by how they lie to the nodes that a container's are to come from."""

    inside: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    nowhere: frozenset[str] = frozenset()
    """Without NUMA node, or on node -1."""


def aligned(free: Collection[str], listed: Mapping[str, Told], nodes: Mask | None) -> Aligned:
    """Sort free devices; all are ``nowhere`` where there is nothing to align."""
    if nodes is None or not has_alignment(listed):
        return Aligned(nowhere=frozenset(free))
    known = {i: listed[i].numa_nodes or () if i in listed else () for i in free}
    inside = frozenset(i for i, numa in known.items() if mask_of(numa) & nodes)
    elsewhere = frozenset(i for i, numa in known.items() if set(numa) - {-1}) - inside
    return Aligned(inside=inside, elsewhere=elsewhere, nowhere=frozenset(free) - inside - elsewhere)


def _on_one_node(hints: Hints) -> Hints:
    return tuple(
        hint
        for hint in hints
        if hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)
    )


def _best(resources: Sequence[Hints], machine: Mask) -> Hint:
    """Merge one hint of each resource in all ways; give the best that has a node at all.

    A merged hint is the intersection, and is preferred if all of its parts are, on equal nodes.
    """
    # The intersection so far, with the nodes that all had if the merged hint may be preferred yet.
    merged: set[tuple[Mask, Mask | None, bool]] = {(machine, None, True)}
    for hints in resources:
        merged = {_with(one, hint) for one in merged for hint in hints}
    least = [_least(hints) for hints in resources]
    best = min(
        (Hint(nodes=nodes, preferred=preferred) for nodes, _, preferred in merged if nodes),
        key=lambda hint: _rank(hint, wanted=max(least, default=0)),
        default=None,
    )
    return best or Hint(nodes=machine, preferred=False)


def _with(one: tuple[Mask, Mask | None, bool], hint: Hint) -> tuple[Mask, Mask | None, bool]:
    nodes, common, preferred = one
    if hint.nodes is None:
        preferred = preferred and hint.preferred
        return nodes, common if preferred else None, preferred
    preferred = preferred and hint.preferred and common in (None, hint.nodes)
    return nodes & hint.nodes, hint.nodes if preferred else None, preferred


def _least(hints: Hints) -> int:
    return min((hint.nodes.bit_count() for hint in hints if hint.nodes is not None), default=0)


def _rank(hint: Hint, *, wanted: int) -> tuple[int, int, int, Mask]:
    """Give an order whose first is the best.

    Of preferred hints the one with the fewest nodes. Of the others the one with as many as the
    resource needs that needs most (``wanted``), else the one that lacks least, else the one with
    the fewest too many. Of equals the one with the lower nodes.
    """
    nodes = hint.nodes or 0
    count = nodes.bit_count()
    if hint.preferred:
        return 0, 0, count, nodes
    if count > wanted:
        return 1, 1, count, nodes
    return 1, 0, wanted - count, nodes
