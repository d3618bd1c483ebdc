from __future__ import annotations

from dataclasses import replace

import pytest

from genericdp.devices.device import Device
from genericdp.devices.inventory import Identity
from genericdp.devices.offers import Offer, Offered
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.listing import NO_LISTING, Listing, listing, relisted

Entry = tuple[str, str, tuple[int, ...]]


def device(name: str, *numa_nodes: int, replicas: int = 1) -> Device:
    return Device(
        id=name,
        key=name,
        path=f"/dev/{name}",
        identity=Identity(inode=1),
        replicas=replicas,
        numa_nodes=numa_nodes,
    )


def offer_of(*devices: Device, unhealthy: str = "") -> Offer:
    return Offer(
        offered={
            one.id: Offered(device=one, unhealthy="broken" if one.id in unhealthy else "")
            for one in devices
        }
    )


def told(listed: Listing) -> list[Entry]:
    """What a kubelet reads: id, health, NUMA nodes."""
    return [
        (one.ID, one.health, tuple(node.ID for node in one.topology.nodes))
        for one in api.ListAndWatchResponse.FromString(listed.whole).devices
    ]


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        (offer_of(), []),
        (offer_of(device("a"), device("b"), unhealthy="b"), [
            ("a", "Healthy", ()), ("b", "Unhealthy", ())]),
        (offer_of(device("a", replicas=2), unhealthy="a"), [
            ("a", "Unhealthy", ()), ("a::1", "Unhealthy", ())]),
        (offer_of(device("a", 0, 1), device("b", 1)), [
            ("a", "Healthy", (0, 1)), ("b", "Healthy", (1,))]),
        (offer_of(device("a", 0), device("b")), [("a", "Healthy", ()), ("b", "Healthy", ())]),
    ],
)  # fmt: skip
def test_a_list_says_what_is_on_offer(offer: Offer, expected: list[Entry]) -> None:
    listed = listing(offer)
    assert told(listed) == expected
    answer = api.ListAndWatchResponse.FromString(listed.whole)
    answer.DiscardUnknownFields()
    assert answer.SerializeToString() == listed.whole
    assert listed.offer is offer
    assert list(listed.entries) == list(offer.offered)
    assert b"".join(listed.entries.values()) == listed.whole


def test_what_has_not_changed_is_not_encoded_again() -> None:
    before = listing(offer_of(device("a", 0), device("b", 1)))
    kept = before.offer.offered["a"]
    now = Offer(offered={"a": kept, "b": Offered(device=device("b", 1), unhealthy="broken")})
    after = listing(now, before)
    assert after.entries["a"] is before.entries["a"]
    assert told(after) == [("a", "Healthy", (0,)), ("b", "Unhealthy", (1,))]


@pytest.mark.parametrize("first", [(), (0,)])
def test_a_device_that_makes_all_lose_or_gain_their_nodes_has_all_encoded(
    first: tuple[int, ...],
) -> None:
    """LAW-8: all carry their NUMA nodes or none does."""
    a, b, c = device("a", 0), device("b", *first), device("b", *({0} - {*first}))
    before = listing(offer_of(a, b))
    now = Offer(offered={"a": before.offer.offered["a"], "b": Offered(device=c)})
    after = listing(now, before)
    assert told(after) == told(listing(now))
    assert (before.carried, after.carried) == (bool(first), not first)


def test_only_the_devices_whose_health_changed_are_encoded_again() -> None:
    before = listing(offer_of(device("a", 0), device("b", 1), device("c", 1)))
    ill = {
        name: replace(one, unhealthy="broken") if name != "c" else one
        for name, one in before.offer.offered.items()
    }
    after = relisted(Offer(offered=ill), before, ["b", "gone"])
    assert told(after) == [
        ("a", "Healthy", (0,)),
        ("b", "Unhealthy", (1,)),
        ("c", "Healthy", (1,)),
    ]
    assert after.offer.offered == ill
    assert after.whole == b"".join(after.entries.values())
    assert before.entries["b"] != after.entries["b"]


def test_health_changes_nothing_about_whether_nodes_are_told() -> None:
    before = listing(offer_of(device("a", 0), device("b")))
    ill = offer_of(device("a", 0), device("b"), unhealthy="a")
    after = relisted(ill, before, ["a"])
    assert told(after) == [("a", "Unhealthy", ()), ("b", "Healthy", ())]
    assert after.carried is False


def test_nothing_is_an_empty_list() -> None:
    assert (NO_LISTING.whole, dict(NO_LISTING.entries)) == (b"", {})
