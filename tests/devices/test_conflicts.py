"""Contested ids and nodes: the device on offer keeps them, else the first by syspath."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import (
    decide,
    healthy,
    inject,
    node,
    nodes,
    refusals,
    resource,
    unhealthy,
)

if TYPE_CHECKING:
    from genericdp.devices.decide import DeviceLists
    from genericdp.model import DeviceNodeSelector

A = node("/dev/a", (1, 1), syspath="/sys/devices/port10/a")
B = node("/dev/b", (1, 2), syspath="/sys/devices/port2/b")
CONTROL = node("/dev/control", (1, 9))
SAME_ID = resource("x", "/dev/[ab]", id="same")
ID_TAKEN = "its id 'same' is that of {} (add something to id that tells them apart)"


def test_of_two_newcomers_with_one_id_the_first_by_syspath_gets_it() -> None:
    for files in ([A, B], [B, A]):
        offers = decide([SAME_ID], files)
        assert [one.device.path for one in offers["example.com/x"].devices.values()] == ["/dev/b"]
        assert refusals(offers, "x") == {"/dev/a": ID_TAKEN.format("/dev/b")}


def test_the_device_on_offer_keeps_a_contested_id() -> None:
    before = decide([SAME_ID], [A])
    offers = decide([SAME_ID], [A, B], before, now=1.0)
    assert refusals(offers, "x") == {"/dev/b": ID_TAKEN.format("/dev/a")}


def test_an_id_whose_device_has_vanished_goes_to_the_next() -> None:
    before = decide([SAME_ID], [A])
    offers = decide([SAME_ID], [B], before, now=1.0)
    assert [one.device.path for one in offers["example.com/x"].devices.values()] == ["/dev/b"]
    back = decide([SAME_ID], [A, B], offers, now=2.0)
    assert refusals(back, "x") == {"/dev/a": ID_TAKEN.format("/dev/b")}


def test_ids_that_become_equal_by_cleaning_are_contested_too() -> None:
    files = [node("/dev/a b", (1, 1)), node("/dev/a_b", (1, 2))]
    offers = decide([resource("x", "/dev/*")], files)
    assert healthy(offers, "x") == ["a_b"]
    assert list(refusals(offers, "x")) == ["/dev/a_b"]


BOTH = "$(device.path)"


def test_a_node_belongs_to_one_device_however_it_was_named() -> None:
    """D8, for nodes that ``inject`` brings along under another name."""
    link = node("/dev/by/b", (1, 2), target="/dev/b", syspath="/sys/devices/port2/b")
    bringing = resource(
        "bringing", "/dev/a", given=inject(nodes(BOTH), nodes("/dev/$(device.name:-b)/../by/b"))
    )
    assert "holds '..'" in refusals(decide([bringing], [A]), "bringing")["/dev/a"]
    bringing = resource(
        "bringing", "/dev/a", given=inject(nodes(BOTH), nodes("/dev/by/[b]$(property.P:-)"))
    )
    offers = decide([bringing, resource("plain", "/dev/b")], [A, B, link])
    assert healthy(offers, "plain") == ["b"]  # port2 comes before port10
    assert refusals(offers, "bringing") == {
        "/dev/a": "its node /dev/by/b belongs to device b of example.com/plain"
        " (exclude one of the two, or give each its own nodes)"
    }


@pytest.mark.parametrize("order", [1, -1])
def test_who_has_a_node_keeps_it_when_another_on_offer_comes_to_want_it(order: int) -> None:
    """A container may have it."""
    link = node("/dev/by/b", (1, 2), target="/dev/b")
    wanted = nodes("/dev/by/[b]$(property.P:-)", optional=True)
    wanting = resource("wanting", "/dev/a", given=inject(nodes(BOTH), wanted))
    resources = [wanting, resource("having", "/dev/b")][::order]
    before = decide(resources, [A, B])
    assert (healthy(before, "wanting"), healthy(before, "having")) == (["a"], ["b"])
    offers = decide(resources, [A, B, link], before, now=1.0)
    assert healthy(offers, "having") == ["b"]
    assert list(refusals(offers, "wanting")) == ["/dev/a"]
    later = decide(resources, [A, B, link], offers, now=400.0)
    assert (healthy(later, "wanting"), healthy(later, "having")) == ([], ["b"])


@pytest.mark.parametrize(
    "entry",
    [nodes("/dev/control"), nodes("/dev/cont*"), nodes("/dev/$(property.P:-control)", shared=True)],
)
def test_a_control_node_or_a_shared_one_may_belong_to_many(entry: DeviceNodeSelector) -> None:
    given = inject(nodes(BOTH), entry)
    offers = decide([resource("x", "/dev/[ab]", given=given)], [A, B, CONTROL])
    assert healthy(offers, "x") == ["a", "b"]


def test_a_templated_node_that_is_not_shared_belongs_to_one_device() -> None:
    given = inject(nodes(BOTH), nodes("/dev/$(property.P:-control)"))
    offers = decide([resource("x", "/dev/[ab]", given=given)], [A, B, CONTROL])
    assert (healthy(offers, "x"), list(refusals(offers, "x"))) == (["b"], ["/dev/a"])


def test_what_cannot_be_had_just_now_keeps_its_id_and_nodes() -> None:
    """While a template fails for it, its hardware and its match are still there."""
    fine = resource("x", "/dev/a", given=inject(nodes(BOTH)))
    before = decide([fine], [A])
    failing = resource("x", "/dev/a", given=inject(nodes(BOTH), env={"S": "$(property.SERIAL)"}))
    taking = resource("y", "/dev/b", given=inject(nodes("/dev/$(property.P:-a)")))
    offers = decide([failing, taking], [A, B], before, now=1.0)
    assert unhealthy(offers, "x") == {"a": "/dev/a: it has no '$(property.SERIAL)'"}
    assert list(refusals(offers, "y")) == ["/dev/b"]
    gone = decide([failing, taking], [B, node("/dev/a", (1, 7))], offers, now=2.0)
    assert healthy(gone, "y") == ["b"], "the hardware is gone, and its node another one"


def test_a_folder_that_hangs_gives_nothing_of_its_devices_to_others() -> None:
    link = node("/dev/by/a", (1, 1), target="/dev/a")
    resources = [resource("x", "/dev/by/*"), resource("y", "/dev/a")]
    before = decide(resources, [A, link])
    offers = decide(resources, [A, link], before, now=1.0, hanging=["/dev/by/*"])
    assert unhealthy(offers, "x") == {"by_a": "looking at /dev/by/* does not end"}
    assert healthy(offers, "y") == []
    assert healthy(decide(resources, [A, link], offers, now=2.0), "x") == ["by_a"]


FILES = [node(f"/dev/{name}", (1, i), inode=i) for i, name in enumerate("abcdef")]


@given(
    st.lists(st.sets(st.sampled_from(range(6))), min_size=1, max_size=6),
    st.sampled_from(["same", "$(device.minor)", "$(device.name)"]),
)
def test_whatever_comes_and_goes_ids_and_nodes_have_one_owner(
    passes: list[set[int]], template: str
) -> None:
    resources = [resource("x", "/dev/[a-d]", id=template), resource("y", "/dev/*")]
    offers: DeviceLists | None = None
    for now, present in enumerate(passes):
        before = offers
        offers = decide(resources, [FILES[i] for i in present], before, now=float(now))
        owned = [
            one.key
            for offer in offers.values()
            for device in offer.devices.values()
            if device.is_healthy
            for one in device.device.nodes
        ]
        assert len(owned) == len(set(owned))
        named = [one.device.key for offer in offers.values() for one in offer.not_offered]
        expected = {FILES[i].key for i in present}
        assert expected <= {*owned, *named}, "each file is offered or has a reason"
        if before is not None:
            _assert_incumbents_stay(before, offers, expected)


def _assert_incumbents_stay(before: DeviceLists, offers: DeviceLists, present: set[str]) -> None:
    for name, offer in before.items():
        for device_id, one in offer.devices.items():
            if one.is_healthy and one.device.key in present:
                assert offers[name].devices[device_id].device.key == one.device.key
