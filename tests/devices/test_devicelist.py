"""Limits of the list of devices."""

from __future__ import annotations

from dataclasses import replace

from genericdp.devices.device import Device
from genericdp.devices.devicelist import MAX_LIST_BYTES, DeviceList, Entry, within_limit
from genericdp.devices.inventory import Identity
from genericdp.devices.transitions import Event
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.servicer import entry_bytes
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import decide, node, resource


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
    shorter = sum(len(listed.shares[-1]) - len(share) for share in listed.shares)
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
