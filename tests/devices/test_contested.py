"""Groups and what comes back, where another device wants one of their nodes as well."""

from __future__ import annotations

import pytest

from genericdp.devices.devicelist import next_due
from genericdp.template import parse
from tests.devices.making import decide, healthy, inject, node, nodes, refusals, resource, unhealthy

A0, A1 = node("/dev/a0", (1, 0)), node("/dev/a1", (1, 1))
B0, B1 = node("/dev/b0", (2, 0)), node("/dev/b1", (2, 1))
C0, C1 = node("/dev/c0", (3, 0)), node("/dev/c1", (3, 1))
EVERYTHING = [A0, A1, B0, B1, C0, C1]

WANTING = resource(
    "wanting",
    "/dev/a*",
    given=inject(nodes("$(device.path)"), nodes("/dev/b$(device.minor)", optional=True)),
)
"""Each has the b of its own number, where there is one."""
GROUPS = resource("groups", "/dev/[bc]*", group_by=parse("g$(device.minor)"))
SINGLES = resource("singles", "/dev/b*")
BELONGS = "its node /dev/b{0} belongs to device a{0} of example.com/wanting" + (
    " (exclude one of the two, or give each its own nodes)"
)
IN_BOTH_ORDERS = pytest.mark.parametrize("order", [1, -1])


def test_groups_that_have_lost_to_others_do_not_wait_again_and_again() -> None:
    """Two that were out of phase had each other's pass begin anew, every 0.3 s forever."""
    resources = [WANTING, GROUPS]
    said = {"/dev/b0": BELONGS.format(0), "/dev/b1": BELONGS.format(1)}
    offers = decide(resources, EVERYTHING)
    assert refusals(offers, "groups") == said
    offers = decide(resources, [A0, A1, B0, C0, C1], offers, now=1.0)
    offers = decide(resources, EVERYTHING, offers, now=1.1)
    for now in (1.5, 1.55, 1.8, 2.1, 9.0):
        offers = decide(resources, EVERYTHING, offers, now=now)
        assert refusals(offers, "groups") == said
        assert next_due(offers["example.com/groups"], now=now) is None


@IN_BOTH_ORDERS
def test_a_group_gets_back_the_member_that_it_has_lost(order: int) -> None:
    resources = [WANTING, GROUPS][::order]
    offers = decide(resources, [B0, B1, C0, C1])
    offers = decide(resources, EVERYTHING, offers, now=1.0)
    assert (healthy(offers, "groups"), healthy(offers, "wanting")) == (["g0", "g1"], [])
    offers = decide(resources, [A0, A1, B1, C0, C1], offers, now=2.0)
    assert (healthy(offers, "groups"), healthy(offers, "wanting")) == (["g1"], ["a0"])
    offers = decide(resources, EVERYTHING, offers, now=3.0)
    assert healthy(offers, "groups") == ["g0", "g1"]
    assert list(unhealthy(offers, "wanting")) == ["a0"]


@IN_BOTH_ORDERS
def test_what_comes_back_has_its_node_while_it_is_listed(order: int) -> None:
    """As at a replug, which takes a few seconds."""
    resources = [WANTING, SINGLES][::order]
    offers = decide(resources, [B0])
    offers = decide(resources, [A0], offers, now=1.0)
    assert (healthy(offers, "wanting"), list(unhealthy(offers, "singles"))) == (["a0"], ["b0"])
    offers = decide(resources, [A0, B0], offers, now=5.0)
    assert healthy(offers, "singles") == ["b0"]
    assert list(unhealthy(offers, "wanting")) == ["a0"]
