"""The topology manager: hints and policies case by case, and a search of all ways as an oracle."""

from __future__ import annotations

from functools import reduce
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.simulator.settings import TopologyPolicy as Policy
from genericdp.simulator.topology import (
    IMPOSSIBLE,
    NO_PREFERENCE,
    Affinity,
    Hint,
    affinity,
)

Hints = tuple[Hint, ...]


def hints(**nodes: bool) -> Hints:
    """``hints(n01=True, n10=False)`` are masks in binary, and whether they are preferred."""
    return tuple(Hint(nodes=int(n[1:], 2), preferred=p) for n, p in nodes.items())


ON_EACH = hints(n01=True, n10=True, n11=False)
ACROSS = hints(n11=True)
SPLIT = hints(n11=False)

CASES: dict[str, tuple[tuple[Hints, ...], dict[Policy, tuple[int | None, bool]]]] = {
    "nothing to align": (
        (),
        {
            Policy.NONE: (None, True),
            Policy.BEST_EFFORT: (0b11, True),
            Policy.RESTRICTED: (0b11, True),
            Policy.SINGLE_NUMA_NODE: (None, True),
        },
    ),
    "one node does": (
        (ON_EACH,),
        {
            Policy.NONE: (None, True),
            Policy.BEST_EFFORT: (0b01, True),
            Policy.RESTRICTED: (0b01, True),
            Policy.SINGLE_NUMA_NODE: (0b01, True),
        },
    ),
    "it needs both": (
        (ACROSS,),
        {
            Policy.BEST_EFFORT: (0b11, True),
            Policy.RESTRICTED: (0b11, True),
            Policy.SINGLE_NUMA_NODE: (None, False),
        },
    ),
    "it gets from both though one would do on an idle machine": (
        (SPLIT,),
        {
            Policy.BEST_EFFORT: (0b11, True),
            Policy.RESTRICTED: (0b11, False),
            Policy.SINGLE_NUMA_NODE: (None, False),
        },
    ),
    "not enough anywhere": (
        (IMPOSSIBLE,),
        {
            Policy.NONE: (None, True),
            Policy.BEST_EFFORT: (0b11, True),
            Policy.RESTRICTED: (0b11, False),
            Policy.SINGLE_NUMA_NODE: (None, False),
        },
    ),
    "two resources meet on one node": (
        (ON_EACH, hints(n10=True, n11=False), NO_PREFERENCE),
        {
            Policy.BEST_EFFORT: (0b10, True),
            Policy.RESTRICTED: (0b10, True),
            Policy.SINGLE_NUMA_NODE: (0b10, True),
        },
    ),
    "two resources that do not meet": (
        (hints(n01=True), hints(n10=True)),
        {
            Policy.BEST_EFFORT: (0b11, True),
            Policy.RESTRICTED: (0b11, False),
            Policy.SINGLE_NUMA_NODE: (None, False),
        },
    ),
    "one needs both nodes, the other one of them": (
        (ACROSS, ON_EACH),
        {
            Policy.BEST_EFFORT: (0b11, True),
            Policy.RESTRICTED: (0b11, False),
            Policy.SINGLE_NUMA_NODE: (None, False),
        },
    ),
}


@pytest.mark.parametrize(
    ("case", "policy"), [(case, policy) for case in CASES for policy in CASES[case][1]]
)
def test_a_policy_decides_on_nodes_and_admission(case: str, policy: Policy) -> None:
    resources, wanted = CASES[case]
    nodes, admitted = wanted[policy]
    decided = affinity(policy, resources, numa_nodes=(0, 1))
    assert decided == Affinity(nodes=nodes, admitted=admitted)


def better(best: Hint | None, one: Hint, wanted: int) -> Hint | None:
    """Compare as the kubelet does: one candidate after the other, case by case."""
    assert one.nodes is not None
    if not one.nodes:
        return best
    if best is None:
        return one
    assert best.nodes is not None
    narrower = min(best, one, key=lambda h: ((h.nodes or 0).bit_count(), h.nodes))
    if best.preferred != one.preferred:
        return best if best.preferred else one
    current, candidate = best.nodes.bit_count(), one.nodes.bit_count()
    if best.preferred or current > wanted or current == candidate:
        return narrower
    if current == wanted or candidate > wanted:
        return best
    return max(best, one, key=lambda h: (h.nodes or 0).bit_count())


def searched(resources: list[Hints], machine: int) -> Hint:
    """Try all ways, as the kubelet does."""
    least = [
        min((h.nodes.bit_count() for h in one if h.nodes is not None), default=0)
        for one in resources
    ]
    best = None
    for way in product(*resources):
        masks = [hint.nodes for hint in way if hint.nodes is not None]
        preferred = all(hint.preferred for hint in way) and len(set(masks)) <= 1
        merged = Hint(nodes=reduce(int.__and__, masks, machine), preferred=preferred)
        best = better(best, merged, max(least, default=0))
    return best or Hint(nodes=machine, preferred=False)


some_hints = st.one_of(
    st.just(NO_PREFERENCE),
    st.just(IMPOSSIBLE),
    st.dictionaries(st.integers(1, 15), st.booleans(), min_size=1, max_size=6).map(
        lambda masks: tuple(Hint(nodes=m, preferred=p) for m, p in masks.items())
    ),
)


@given(st.lists(some_hints, max_size=4))
def test_folding_finds_what_a_search_of_all_ways_finds(resources: list[Hints]) -> None:
    """The kubelet's search takes 255³ steps for three resources on eight nodes; this does not."""
    best = searched(resources, 0b1111)
    decided = affinity(Policy.RESTRICTED, resources, numa_nodes=range(4))
    assert decided == Affinity(nodes=best.nodes, admitted=best.preferred)
