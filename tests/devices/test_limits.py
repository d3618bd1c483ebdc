"""Limits of lists and of what entries inject, and that entries inject what a resource would."""

from __future__ import annotations

from dataclasses import replace

import pytest
from genericdp.devices.allocation import edits
from genericdp.devices.device import Device
from genericdp.devices.devicelist import MAX_LIST_BYTES, DeviceList, Entry, within_limit
from genericdp.devices.inventory import Identity
from genericdp.devices.transitions import Event
from genericdp.health.kinds.exec import ExecCheck
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.servicer import entry_bytes
from genericdp.model import (
    Command,
    Hook,
    Inject,
    PathSelector,
    Probe,
    Selector,
)
from genericdp.template import parse
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
    selector,
)

WDM = [node(f"/dev/cdc-wdm{n}", (180, 176 + n)) for n in (0, 1)]
TTY = [node(f"/dev/ttyUSB{n}", (188, n)) for n in (2, 6)]
NONE = Inject(devices=())


def entry(glob: str, given: Inject) -> Selector:
    """An entry of ``match`` with its own ``inject``."""
    return replace(selector(glob), inject=given)


def strings(count: int, *, with_reference: bool = True) -> Inject:
    """Variables of 60 KiB each."""
    reference = "$(device.name)" if with_reference else ""
    return inject(env={f"E{n}{reference[:1]}": "a" * 60_000 + reference for n in range(count)})


@pytest.mark.parametrize(
    ("first", "second", "is_offered"),
    [
        (strings(8), Inject(), True),
        (strings(9), Inject(), False),
        (strings(8), strings(1), True),
        (strings(8), strings(2), False),
        (strings(17, with_reference=False), Inject(), True),
        (strings(17, with_reference=False), strings(1), False),
    ],
)
def test_the_strings_of_a_device_are_those_of_the_entries_of_its_members(
    first: Inject, second: Inject, is_offered: bool
) -> None:
    """Literal text without a template counts once, other text for each member of its entry."""
    match = (entry("/dev/cdc-wdm[01]", first), entry("/dev/ttyUSB[26]", second))
    lists = decide([resource("modem", *match, group_by=parse("all"))], [*WDM, TTY[0]])
    assert bool(healthy(lists, "modem")) is is_offered
    reasons = refusals(lists, "modem")
    assert all("its strings take more than 1 MiB together" in text for text in reasons.values())


def test_the_strings_of_probes_and_hooks_count_once_in_a_group() -> None:
    ports = [node(f"/dev/ttyACM{n}", (166, n)) for n in range(64)]

    def offered(count: int) -> list[str]:
        """Return the devices whose probe and hook have this many strings of 20 KB each."""
        command = Command(argv=(parse("/bin/x"), *[parse("a" * 20_000 + "$(device.name)")] * count))
        lists = decide(
            [
                resource(
                    "ports",
                    "/dev/ttyACM*",
                    group_by=parse("all"),
                    health=(Probe(check=ExecCheck(command=command)),),
                    hooks={"allocate": Hook(command=command)},
                )
            ],
            ports,
        )
        return healthy(lists, "ports")

    assert offered(1) == ["all"]
    assert offered(26) == ["all"]
    assert offered(27) == []


@given(
    st.lists(st.sampled_from(["/dev/cdc-wdm[01]", "/dev/ttyUSB[26]", "/dev/*"]), min_size=1),
    st.sampled_from(["$(device.name)", "all", "$(device.major)"]),
    st.sampled_from(
        [
            inject(nodes("$(device.path)", "/dev/x$(device.name)"), mounts=[("/a", "/b")]),
            inject(nodes("/dev/ttyUSB*"), env={"A": "$(device.name)"}, cdi=["v.com/c=1"]),
            inject(nodes("/dev/none"), annotations={"a": "$(device.minor)"}),
        ]
    ),
)
def test_what_all_entries_inject_is_what_the_resource_would(
    globs: list[str], group_by: str, given: Inject
) -> None:
    def answers(own: Inject, each: Inject) -> object:
        match = [
            Selector(candidates=PathSelector(globs=(glob,)), inject=each)
            for glob in dict.fromkeys(globs)
        ]
        wanted = resource("modem", *match, given=own, group_by=parse(group_by))
        listed = decide([wanted], WDM + TTY)["example.com/modem"]
        return {
            name: (edits([entry.device]), entry.text) for name, entry in listed.devices.items()
        }, listed.not_offered

    assert answers(NONE, given) == answers(given, Inject())


def device(device_id: str, replicas: int = 1) -> Device:
    return Device(
        id=device_id, key=device_id, path=device_id, identity=Identity(inode=1), replicas=replicas
    )


def real_bytes(offered: Device, *numa: int) -> int:
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in numa]) if numa else None
    listed = [
        api.Device(ID=share, health="Unhealthy", topology=topology) for share in offered.shares
    ]
    return api.ListAndWatchResponse(devices=listed).ByteSize()


def listed_bytes(listed: Device) -> int:
    return listed.replicas * entry_bytes(listed.shares[-1], listed.numa_nodes)


@given(
    st.text("ab:.", min_size=1, max_size=57),
    st.sampled_from([1, 2, 10, 11, 101, 1500]),
    st.lists(st.integers(0, 2**31), max_size=40),
)
def test_a_list_is_never_larger_than_it_is_taken_for(
    device_id: str, replicas: int, numa: list[int]
) -> None:
    """LAW-6, K11: all Unhealthy."""
    listed = replace(device(device_id, replicas), numa_nodes=tuple(numa))
    shares = listed.shares
    shorter = sum(len(shares[-1]) - len(share) for share in shares)
    shorter += replicas  # the length of an entry, too, may take a byte less
    assert listed_bytes(listed) - shorter <= real_bytes(listed, *numa) <= listed_bytes(listed)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 12), max_size=9),
    st.integers(0, 900),
    st.data(),
)
def test_a_list_never_passes_the_limit_and_those_on_offer_stay(
    replicas: dict[str, int], limit: int, data: st.DataObject
) -> None:
    """K11: a list that a kubelet does not take makes it reconnect forever."""
    offered = [Entry(device=device(name, replicas[name])).after(Event.MADE) for name in replicas]
    listed = data.draw(st.sets(st.sampled_from([*replicas]))) if replicas else set()
    before = DeviceList(entries=tuple(entry for entry in offered if entry.device.id in listed))
    previous = within_limit(before, {}, entry_bytes, limit).devices
    found = within_limit(DeviceList(entries=tuple(offered)), previous, entry_bytes, limit)
    kept = found.devices
    assert sum(listed_bytes(entry.device) for entry in kept.values()) <= limit
    assert previous.keys() <= kept.keys()
    assert {*kept, *(entry.device.path for entry in found.not_offered)} == {*replicas}
    assert list(kept) == [name for name in replicas if name in kept]
    fitting = sum(entry.device.replicas for entry in kept.values())
    said = f"list full: {fitting} of {sum(replicas.values())} devices, shares counted, fit into the"
    texts = [entry.text for entry in found.not_offered]
    assert all(text.startswith(f"{said} {limit} bytes ") for text in texts)


def test_the_limit_is_met_to_the_byte_with_real_messages() -> None:
    """K11: LAW-6 allows 4 MiB and not a byte more."""
    wanted = resource("x", "/dev/d*", replicas=10_000)
    files = [node(f"/dev/d{i}", (240, i)) for i in range(20)]
    offer = decide([wanted], files)["example.com/x"]
    size = sum(real_bytes(each.device) for each in offer.devices.values())
    assert 0 < len(offer.devices) < 20
    assert len(offer.devices) + len(offer.not_offered) == 20
    assert size <= MAX_LIST_BYTES == 4 * 1024 * 1024
    assert size + real_bytes(files_device(offer)) > MAX_LIST_BYTES


def files_device(offer: DeviceList) -> Device:
    refused = offer.not_offered[0]
    return device(refused.device.path.removeprefix("/dev/"), 10_000)
