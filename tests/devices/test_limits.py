"""The limit of a list: a kubelet that does not take a list reconnects forever (K11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.devicelist import MAX_LIST_BYTES
from genericdp.kubelet.api import deviceplugin_pb2 as api

from tests.devices.making import decide, node, resource

if TYPE_CHECKING:
    from collections.abc import Iterable


def size_of(names: Iterable[str], replicas: int) -> int:
    """Return the size of a list if all shares of these devices are Unhealthy (LAW-6)."""
    shares = [f"{name}::{share}" if share else name for name in names for share in range(replicas)]
    listed = [api.Device(ID=share, health="Unhealthy") for share in shares]
    return api.ListAndWatchResponse(devices=listed).ByteSize()


def test_a_list_has_what_a_kubelet_takes_to_the_byte_and_those_on_offer_stay() -> None:
    wanted = resource("x", "/dev/d*", replicas=10_000)
    files = [node(f"/dev/d{number}", (240, number)) for number in range(10, 50)]
    before = decide([wanted], files[20:])
    listed = decide([wanted], files, before, now=1.0)["example.com/x"]
    assert [*listed.devices] == [*before["example.com/x"].devices]
    size = size_of(listed.devices, 10_000)
    assert size <= MAX_LIST_BYTES == 4 * 1024 * 1024
    assert size + size_of(["d10"], 10_000) > MAX_LIST_BYTES
    left_out = [entry.text for entry in listed.not_offered]
    assert len(listed.devices) + len(left_out) == 40
    fitting = len(listed.devices) * 10_000
    assert all(text.startswith(f"list full: {fitting} of 400000 devices") for text in left_out)
