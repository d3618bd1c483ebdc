"""Laws of what is offered: one owner of each ID and node, and no order changes an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.allocation import edits
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import decide, inject, node, resource

if TYPE_CHECKING:
    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.inventory import FoundFile

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


@given(st.permutations(FILES))
def test_devices_come_in_natural_order_whatever_the_order_of_the_request(
    files: list[FoundFile],
) -> None:
    """ALL-1: a kubelet names them in random order."""
    wanted = resource("x", "/dev/*", given=inject(env={"NAMES": "$(device.name)"}))
    devices = decide([wanted], FILES)["example.com/x"].devices
    given_edits = edits([*(devices[file.path[5:]].device for file in files), devices["a"].device])
    assert given_edits.env == {"NAMES": "a,b,c,d,e,f"}
    assert [node.host_path[5:] for node in given_edits.devices] == [*"abcdef"]
