"""What stays on offer from one pass to the next, and how long the list may be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.devices.changes import shared_ids
from genericdp.devices.device import Device
from genericdp.devices.devicelist import (
    MAX_LIST_BYTES,
    DeviceList,
    Entry,
    next_due,
    within_limit,
)
from genericdp.devices.inventory import Identity
from genericdp.devices.transitions import Event
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.servicer import entry_bytes
from tests.devices.making import decide, healthy, inject, node, nodes, plain, resource, unhealthy

if TYPE_CHECKING:
    from genericdp.devices.inventory import FoundFile
    from genericdp.model import Resource

TTY0 = node("/dev/ttyUSB0", (188, 0))
TTY1 = node("/dev/ttyUSB1", (188, 1))
LINK = node("/dev/ttyUSB5", (188, 0), target="/dev/ttyUSB0")
SERIAL = resource("x", "/dev/ttyUSB*", forget_after_seconds=300)


def test_a_device_that_vanishes_is_unhealthy_at_once_and_one_that_comes_is_seen() -> None:
    """D3: an unplugged device stays Healthy forever, or a plugged one is never seen."""
    before = decide([SERIAL], [TTY0])
    offers = decide([SERIAL], [TTY1], before, now=1.0)
    assert unhealthy(offers, "x") == {"ttyUSB0": "/dev/ttyUSB0 does not exist"}
    assert healthy(offers, "x") == ["ttyUSB1"]


def test_it_keeps_its_id_and_is_healthy_again_when_it_returns_in_time() -> None:
    offers = decide([SERIAL], [TTY0])
    for now, files, state in [
        (1.0, [], "Unhealthy"),
        (300.9, [], "Unhealthy"),
        (300.95, [TTY0], "Healthy"),
        (400.0, [], "Unhealthy"),
        (699.9, [], "Unhealthy"),
        (700.0, [], "forgotten"),
        (701.0, [TTY0], "Healthy"),
    ]:
        offers = decide([SERIAL], files, offers, now=now)
        found = {**dict.fromkeys(healthy(offers, "x"), "Healthy")}
        found |= dict.fromkeys(unhealthy(offers, "x"), "Unhealthy")
        assert found.get("ttyUSB0", "forgotten") == state, now


def test_with_zero_seconds_it_is_forgotten_at_once() -> None:
    one = resource("x", "/dev/ttyUSB*", forget_after_seconds=0)
    offers = decide([one], [], decide([one], [TTY0]), now=1.0)
    assert offers["example.com/x"].devices == {}


def test_another_device_at_its_place_takes_its_id_at_once() -> None:
    """D5: another stick on the same path; the offer has the new one's identity."""
    other = node("/dev/ttyUSB0", (188, 0), inode=7, plugged="usb 1:9")
    offers = decide([SERIAL], [other], decide([SERIAL], [TTY0]), now=1.0)
    assert healthy(offers, "x") == ["ttyUSB0"]
    device = offers["example.com/x"].devices["ttyUSB0"].device
    assert device.identity == other.identity == device.nodes[0].identity


@pytest.mark.parametrize(
    ("resource_now", "files", "hanging", "reason"),
    [
        (SERIAL, [], [], "/dev/ttyUSB0 does not exist"),
        (
            resource("x", "/dev/ttyUSB*", exclude=["/dev/ttyUSB0"]),
            [TTY0],
            [],
            "/dev/ttyUSB0: excluded by the config",
        ),
        (
            resource("x", "/dev/ttyUSB*", id="new-$(device.name)"),
            [TTY0],
            [],
            "/dev/ttyUSB0 is now new-ttyUSB0",
        ),
        (
            resource("x", "/dev/ttyUSB5", id="new-$(device.name)"),
            [LINK],
            [],
            "/dev/ttyUSB0 does not exist; it is new-ttyUSB0 now",
        ),
        # Another one has its number now.
        (SERIAL, [node("/dev/ttyUSB5", (188, 0), inode=7)], [], "/dev/ttyUSB0 does not exist"),
        (resource("x", "/dev/other*"), [TTY0], [], "/dev/ttyUSB0 is no longer matched"),
        (SERIAL, [plain("/dev/ttyUSB0")], [], "/dev/ttyUSB0 is something else now"),
        # Its name is another one's now, and so it has another.
        (
            resource("x", "/dev/ttyUSB5", id="new-$(device.name)"),
            [node("/dev/ttyUSB0", (188, 1), inode=2), LINK],
            [],
            "/dev/ttyUSB0 is something else now; its device is new-ttyUSB0 now",
        ),
        (
            SERIAL,
            [node("/dev/ttyUSB0", (188, 1), inode=2, refusal="not to be trusted")],
            [],
            "/dev/ttyUSB0 is something else now; that is not offered: not to be trusted",
        ),
        (
            SERIAL,
            [node("/dev/ttyUSB0", (188, 0), refusal="not to be trusted")],
            [],
            "/dev/ttyUSB0: not to be trusted",
        ),
        (SERIAL, [TTY0], ["/dev/ttyUSB*"], "looking at /dev/ttyUSB* does not end"),
        (
            resource("x", "/dev/ttyUSB*", "/mnt/slow/*"),
            [],
            ["/mnt/slow/*"],
            "/dev/ttyUSB0 does not exist",
        ),
    ],
)
def test_the_reason_says_why_it_is_gone(
    resource_now: Resource, files: list[FoundFile], hanging: list[str], reason: str
) -> None:
    before = decide([SERIAL], [TTY0])
    offers = decide([resource_now], files, before, now=1.0, hanging=hanging)
    assert unhealthy(offers, "x")["ttyUSB0"] == reason


@pytest.mark.parametrize(
    ("resource_now", "files"),
    [
        pytest.param(SERIAL, [TTY0, LINK], id="a-link-to-it-comes"),
        pytest.param(resource("x", "/dev/ttyUSB5"), [LINK], id="it-is-matched-by-a-link"),
        pytest.param(
            resource("x", "/dev/ttyUSB5"),
            [node("/dev/ttyUSB0", (188, 1), inode=2), LINK],
            id="its-name-is-that-of-another-device",
        ),
    ],
)
def test_a_listed_device_keeps_its_id_whatever_it_is_called(
    resource_now: Resource, files: list[FoundFile]
) -> None:
    """A device that is not listed would be called after the link."""
    before = decide([SERIAL], [TTY0])
    offers = decide([resource_now], files, before, now=1.0)
    assert (healthy(offers, "x"), unhealthy(offers, "x")) == (["ttyUSB0"], {})
    assert offers[SERIAL.name].devices["ttyUSB0"].device.path == "/dev/ttyUSB5"
    assert healthy(decide([resource_now], files), "x") == ["ttyUSB5"]
    forgotten = decide([resource_now], [], offers, now=2.0)
    forgotten = decide([resource_now], [], forgotten, now=302.0)
    assert healthy(decide([resource_now], files, forgotten, now=303.0), "x") == ["ttyUSB5"]


def test_a_device_whose_node_is_missing_is_unhealthy_until_the_node_comes() -> None:
    one = resource("x", "/dev/ttyUSB*", given=inject(nodes("$(device.path)"), nodes("/dev/ctl")))
    offers = decide([one], [TTY0])
    assert unhealthy(offers, "x") == {"ttyUSB0": "/dev/ctl does not exist"}
    offers = decide([one], [TTY0, node("/dev/ctl", (10, 1))], offers, now=1.0)
    assert healthy(offers, "x") == ["ttyUSB0"]


def test_the_list_is_in_natural_order_whoever_came_first() -> None:
    files = [node(f"/dev/ttyUSB{i}", (188, i)) for i in (10, 2, 1)]
    offers = decide([SERIAL], files[:1])
    offers = decide([SERIAL], files, offers)
    assert healthy(offers, "x") == ["ttyUSB1", "ttyUSB2", "ttyUSB10"]


def test_the_next_moment_to_forget_is_that_of_the_device_gone_longest() -> None:
    offers = decide([SERIAL], [TTY0, TTY1])
    assert next_due(offers["example.com/x"], now=0.0) is None
    offers = decide([SERIAL], [TTY1], offers, now=5.0)
    offers = decide([SERIAL], [], offers, now=9.0)
    assert next_due(offers["example.com/x"], now=5.0) == 305.0


def test_ids_in_two_resources_are_told_apart() -> None:
    """LAW-4: kubelets up to 1.36 find a device's pod by its id alone."""
    resources = [resource("x", "/dev/ttyUSB0", id="one"), resource("y", "/dev/ttyUSB1", id="one")]
    assert shared_ids(decide(resources, [TTY0, TTY1])) == {"one"}
    assert shared_ids(decide([SERIAL], [TTY0, TTY1])) == frozenset()


def device(device_id: str, replicas: int = 1) -> Device:
    return Device(
        id=device_id, key=device_id, path=device_id, identity=Identity(inode=1), replicas=replicas
    )


def real_bytes(one: Device, *numa: int) -> int:
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in numa]) if numa else None
    listed = [api.Device(ID=share, health="Unhealthy", topology=topology) for share in one.shares]
    return api.ListAndWatchResponse(devices=listed).ByteSize()


def listed_bytes(one: Device) -> int:
    return one.replicas * entry_bytes(one.shares[-1], one.numa_nodes)


@given(
    st.text("ab:.", min_size=1, max_size=57),
    st.sampled_from([1, 2, 10, 11, 101, 1500]),
    st.lists(st.integers(0, 2**31), max_size=40),
)
def test_a_list_is_never_larger_than_it_is_taken_for(
    device_id: str, replicas: int, numa: list[int]
) -> None:
    """LAW-6, K11: all Unhealthy."""
    one = replace(device(device_id, replicas), numa_nodes=tuple(numa))
    shorter = sum(len(one.shares[-1]) - len(share) for share in one.shares)
    shorter += replicas  # the length of an entry, too, may take a byte less
    assert listed_bytes(one) - shorter <= real_bytes(one, *numa) <= listed_bytes(one)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 12), max_size=9),
    st.integers(0, 900),
    st.data(),
)
def test_a_list_never_passes_the_limit_and_those_on_offer_stay(
    replicas: dict[str, int], limit: int, data: st.DataObject
) -> None:
    """K11: a list that a kubelet does not take makes it reconnect forever."""
    offered = [Entry(device=device(one, replicas[one])).after(Event.MADE) for one in replicas]
    listed = data.draw(st.sets(st.sampled_from([*replicas]))) if replicas else set()
    before = DeviceList(entries=tuple(entry for entry in offered if entry.device.id in listed))
    previous = within_limit(before, {}, entry_bytes, limit).devices
    found = within_limit(DeviceList(entries=tuple(offered)), previous, entry_bytes, limit)
    kept = found.devices
    assert sum(listed_bytes(one.device) for one in kept.values()) <= limit
    assert previous.keys() <= kept.keys()
    assert {*kept, *(entry.device.path for entry in found.not_offered)} == {*replicas}
    assert list(kept) == [name for name in replicas if name in kept]
    fitting = sum(one.device.replicas for one in kept.values())
    said = f"list full: {fitting} of {sum(replicas.values())} devices, shares counted, fit into the"
    texts = [entry.text for entry in found.not_offered]
    assert all(text.startswith(f"{said} {limit} bytes ") for text in texts)


def test_the_limit_is_met_to_the_byte_with_real_messages() -> None:
    """K11: LAW-6 allows 4 MiB and not a byte more."""
    one = resource("x", "/dev/d*", replicas=10_000)
    files = [node(f"/dev/d{i}", (240, i)) for i in range(20)]
    offer = decide([one], files)["example.com/x"]
    size = sum(real_bytes(each.device) for each in offer.devices.values())
    assert 0 < len(offer.devices) < 20
    assert len(offer.devices) + len(offer.not_offered) == 20
    assert size <= MAX_LIST_BYTES == 4 * 1024 * 1024
    assert size + real_bytes(files_device(offer)) > MAX_LIST_BYTES


def files_device(offer: DeviceList) -> Device:
    refused = offer.not_offered[0]
    return device(refused.device.path.removeprefix("/dev/"), 10_000)
