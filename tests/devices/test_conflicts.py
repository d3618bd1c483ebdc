"""Contested IDs and nodes have one owner, also while a directory hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import (
    decide,
    healthy,
    node,
    resource,
    unhealthy,
)

if TYPE_CHECKING:
    from genericdp.devices.decide import DeviceLists

A = node("/dev/a", (1, 1))


def test_a_folder_that_hangs_gives_nothing_of_its_devices_to_others() -> None:
    link = node("/dev/by/a", (1, 1), target="/dev/a")
    resources = [resource("x", "/dev/by/*"), resource("y", "/dev/a")]
    before = decide(resources, [A, link])
    offers = decide(resources, [A, link], before, now=1.0, hanging=["/dev/by/*"])
    assert unhealthy(offers, "x") == {"by_a": "looking at /dev/by/* does not end"}
    assert healthy(offers, "y") == []
    assert healthy(decide(resources, [A, link], offers, now=2.0), "x") == ["by_a"]


def test_an_undecided_resource_keeps_nothing_from_those_that_share_with_it() -> None:
    files = [node("/dev/renderD128", (226, 128)), node("/dev/renderD129", (226, 129))]
    resources = [
        resource("encode", "/dev/render*", id="e-$(device.name)", replicas=4, exclusive=False),
        resource("compute", "/dev/render*", id="c-$(device.name)", replicas=2, exclusive=False),
        resource("whole", "/dev/render*"),
    ]
    names = ("encode", "compute", "whole")
    offers = decide(resources, files, hanging=["/dev/render*"])
    assert [len(healthy(offers, name)) for name in names] == [0, 0, 0]
    offers = decide(resources, files, offers, now=1.0)
    assert [len(healthy(offers, name)) for name in names] == [2, 2, 0]


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
