"""Laws of what is offered: one owner of each ID and node, and no order changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.allocation import edits
from genericdp.devices.device import ContainerEdits, Device
from genericdp.model import Inject, Mount, ValueKind, ValueSource
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.known import Known
from tests.devices.making import decide, healthy, inject, node, nodes, refusals, resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList

PORTS = [node(f"/dev/ttyUSB{i}", (188, i)) for i in range(12)]


def devices(*entries: object, **keys: object) -> list[Device]:
    """A device for each serial port."""
    wanted = resource("x", "/dev/ttyUSB*", given=inject(*entries, **keys))  # type: ignore[arg-type]
    offer = decide([wanted], PORTS)["example.com/x"]
    assert not offer.not_offered
    return [each.device for each in offer.devices.values()]


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_order_in_which_devices_are_named_changes_nothing(order: list[int], n: int) -> None:
    """ALL-1: a kubelet names them in random order."""
    some = devices(nodes("$(device.path)", "/dev/s$(allocation.index)"))
    chosen = [some[i] for i in order[:n]]
    assert edits(chosen) == edits(sorted(chosen, key=lambda port: int(port.id[6:])))


def test_a_device_named_twice_counts_once() -> None:
    first, second, *_ = devices(
        nodes("$(device.path)", "/dev/s$(allocation.index)"), env={"A": "$(device.id)"}
    )
    assert edits([first, second, first]) == edits([first, second])


def test_nothing_is_given_for_nothing() -> None:
    assert edits([]) == ContainerEdits()


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


def test_what_does_not_differ_between_members_is_looked_at_once() -> None:
    """2,000 members and 4,000 mounts took more than a minute of each reconcile."""
    asked: list[str] = []

    class Host(Known):
        def exists_on_host(self, path: str) -> bool:
            asked.append(path)
            return True

    ports = [node(f"/dev/ttyUSB{n}", (188, n)) for n in range(30)]
    paths = [*(f"/opt/{n}" for n in range(20)), "/opt/of-$(device.name)"]
    mounts = tuple(
        Mount(host_path=parse(path), container_path=parse(path), optional=True) for path in paths
    )
    wanted = resource("sound", "/dev/ttyUSB*", given=Inject(mounts=mounts), group_by=parse("all"))
    (offered,) = decide([wanted], ports, facts=Host())["example.com/sound"].devices.values()
    assert len(asked) == 20 + 30
    assert [mount.host_path for mount in offered.device.mounts] == [
        *(f"/opt/{n}" for n in range(20)),
        *(f"/opt/of-ttyUSB{n}" for n in range(30)),
    ]


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
