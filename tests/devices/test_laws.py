"""Laws of what is offered: one owner of each ID and node, and no order changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.allocation import edits
from genericdp.model import ValueKind, ValueSource
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import decide, healthy, node, refusals, resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList

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


def _told(offers: Mapping[str, DeviceList]) -> tuple[object, ...]:
    offer = offers["example.com/sound"]
    devices = {name: edits([entry.device]) for name, entry in offer.devices.items()}
    return list(devices.items()), sorted(refusals(offers, "sound").items())


@given(
    numbers=st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from("ABC")), min_size=1, max_size=12, unique=True
    ),
    random=st.randoms(use_true_random=False),
    needs=st.sampled_from([None, 1, 2, 3]),
)
def test_any_candidates_in_any_order_give_the_same_devices_ids_and_answers(
    numbers: list[tuple[int, str]], random: st.DataObject, needs: int | None
) -> None:
    files = [
        node(
            f"/dev/{group}{n}", (10, n * 3 + "ABC".index(group)), syspath=f"/sys/devices/{group}{n}"
        )
        for n, group in numbers
    ]
    key = ValueSource(kind=ValueKind.TEXT, source=parse("$(device.path)"), regex="/dev/([A-Z])")
    wanted = resource(
        "sound",
        "/dev/*",
        values={"key": key},
        group_by=parse("$(value.key)"),
        group_needs=needs,
        replicas=2,
    )
    answers = _told(decide([wanted], files))
    random.shuffle(files)  # type: ignore[attr-defined]
    assert _told(decide([wanted], files)) == answers
    sizes = {group: sum(other == group for _, other in numbers) for _, group in numbers}
    offered = healthy(decide([wanted], files), "sound")
    assert offered == sorted(group for group, size in sizes.items() if size >= (needs or 1))
