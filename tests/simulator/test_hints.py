"""The device manager's hints, case by case."""

from __future__ import annotations

import pytest

from genericdp.simulator.devices import HEALTHY, Told
from genericdp.simulator.hints import has_alignment, hints_of, mask_of

Numa = tuple[int, ...] | None


def told(**devices: Numa) -> dict[str, Told]:
    return {i: Told(id=i, health=HEALTHY, numa_nodes=numa) for i, numa in devices.items()}


TWO_EACH = told(a=(0,), b=(0,), c=(1,), d=(1,))

CASES = {
    "one on each node": (TWO_EACH, "abcd", "", 1, {0b01: True, 0b10: True, 0b11: False}),
    "more than a node has": (TWO_EACH, "abcd", "", 3, {0b11: True}),
    "a node is taken: fewer nodes would do on an idle machine": (
        *(TWO_EACH, "ac", "", 2),
        {0b11: False},
    ),
    "not enough anywhere": (TWO_EACH, "ac", "", 3, {}),
    "what init containers leave must be inside": (
        *(TWO_EACH, "cd", "a", 2),
        {0b11: False},
    ),
    "a left one without topology asks for nothing, and counts for nothing": (
        *(told(a=None, b=(0,)), "b", "a", 1),
        {0b1: True},
    ),
    "a left one with an empty topology is in no set": (told(a=(), b=(0,)), "b", "a", 1, {}),
    "a mixed resource: those without node do not count": (
        *(told(a=(0,), b=None), "ab", "", 2),
        {},
    ),
    "-1 is in no set, and then all known nodes are tried": (told(a=(-1,)), "a", "", 1, {}),
    "an unknown node is in no set": (told(a=(7,)), "a", "", 1, {}),
    "an unknown node beside a known one": (told(a=(7,), b=(0,)), "ab", "", 1, {0b1: True}),
    "several nodes: any of them counts": (
        *(told(a=(0, 1), b=(1,)), "ab", "", 2),
        {0b10: True, 0b11: False},
    ),
    "nodes without devices are left out": (told(a=(1,)), "a", "", 1, {0b10: True}),
    "a request for none": (told(a=(0,)), "a", "", 0, {0b1: True}),
}


@pytest.mark.parametrize("case", CASES)
def test_hints_are_those_of_the_device_manager(case: str) -> None:
    """LAW-8."""
    listed, free, reusable, amount, wanted = CASES[case]
    hints = hints_of(listed, free=free, reusable=reusable, amount=amount, numa_nodes=(0, 1))
    assert {hint.nodes: hint.preferred for hint in hints} == wanted


def test_an_empty_topology_aligns_nothing_and_minus_one_does() -> None:
    """LAW-8: -1 is a node for the kubelet, so that the pod is refused instead of spared."""
    assert not has_alignment(told(a=None, b=()))
    assert has_alignment(told(a=None, b=(-1,)))


def test_nodes_beyond_a_mask_are_in_none() -> None:
    assert mask_of((-1, 0, 3, 63, 64, 10**6)) == 1 | 8 | 1 << 63
