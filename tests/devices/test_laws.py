"""Laws of what is offered: one owner of each ID and node, and no order changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import decide, node, resource

if TYPE_CHECKING:
    from genericdp.devices.decide import DeviceLists

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
            entry.key
            for offer in offers.values()
            for device in offer.devices.values()
            if device.is_healthy
            for entry in device.device.nodes
        ]
        assert len(owned) == len(set(owned))
        named = [entry.device.key for offer in offers.values() for entry in offer.not_offered]
        expected = {FILES[i].key for i in present}
        assert expected <= {*owned, *named}, "each file is offered or has a reason"
        if before is not None:
            _assert_incumbents_stay(before, offers, expected)


def _assert_incumbents_stay(before: DeviceLists, offers: DeviceLists, present: set[str]) -> None:
    for name, offer in before.items():
        for device_id, entry in offer.devices.items():
            if entry.is_healthy and entry.device.key in present:
                assert offers[name].devices[device_id].device.key == entry.device.key
