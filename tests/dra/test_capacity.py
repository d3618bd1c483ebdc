"""Devices that claims share by capacity."""

from __future__ import annotations

from typing import Any

import pytest
from genericdp.kubelet.api import dra_pb2 as api

from tests.dra.node import NAME, POOL, USB0, DraNode, by_dra
from tests.dra.test_holds import takes

MEMORY = {"memory": {"value": "4Gi", "default": "1Gi", "min": "1Gi", "step": "1Gi"}}
ENV = {"env": {"BYTES": "$(claim.capacity.memory)"}}
GI = 1024**3


def shared(**keys: Any) -> dict[str, object]:
    chosen: dict[str, Any] = {"capacity": MEMORY, "sharing": "capacity", "inject": ENV, **keys}
    return by_dra(**chosen)


def parts(node: DraNode, claim: api.Claim) -> list[str]:
    """Return how much of the device the containers of each request have, as their variables say."""
    return [variable for edits in node.given(claim).values() for variable in edits["env"]]


def published(node: DraNode) -> dict[str, Any]:
    """Return the device in the slice, without its attributes."""
    (slice_,) = node.server.objects("resourceslices")
    (device,) = slice_["spec"]["devices"]
    return {key: value for key, value in device.items() if key not in {"name", "attributes"}}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param({"capacity": {"bytes": "1536Mi", "channels": 2000}},
                     {"capacity": {"bytes": {"value": "1536Mi"}, "channels": {"value": "2k"}}},
                     id="only to choose by"),
        pytest.param({"capacity": {"memory": "4096Mi"}, "sharing": "capacity"},
                     {"capacity": {"memory": {"value": "4Gi"}}, "allowMultipleAllocations": True},
                     id="any amount"),
        pytest.param({"capacity": {"units": {"value": 8, "default": 2}}, "sharing": "capacity"},
                     {"capacity": {"units": {"value": "8", "requestPolicy": {"default": "2"}}},
                      "allowMultipleAllocations": True}, id="a default"),
        pytest.param({"capacity": {"memory": MEMORY["memory"] | {"max": "3Gi"}},
                      "sharing": "capacity"},
                     {"capacity": {"memory": {"value": "4Gi", "requestPolicy": {
                         "default": "1Gi",
                         "validRange": {"min": "1Gi", "max": "3Gi", "step": "1Gi"}}}},
                      "allowMultipleAllocations": True}, id="a policy"),
        pytest.param({"capacity": MEMORY | {"speed": "$(usb.serial)"}, "sharing": "capacity"},
                     {"capacity": {"memory": {"value": "4Gi"}}}, id="one is not known"),
        pytest.param({"capacity": {"memory": MEMORY["memory"] | {"value": "$(device.minor:-0)"}},
                      "sharing": "capacity"}, {}, id="zero"),
    ],
)  # fmt: skip
async def test_a_slice_has_the_capacity_of_a_device_and_what_can_be_requested_of_it(
    node: DraNode, keys: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with node.serving(by_dra(**keys)):
        await node.offers(POOL, USB0)
        assert published(node) == expected


async def test_claims_and_requests_share_a_device_until_the_last_has_ended(node: DraNode) -> None:
    config = shared(hooks=node.hooks())
    async with node.serving(config):
        first = await node.claim(name="first", consumed={"memory": "1Gi"})
        pair = node.allocate(
            name="pair", requests={"a": (USB0,), "b": (USB0,)}, consumed={"memory": "1"}
        )
        answer = await node.prepare(pair)
        assert len({device.share_id for device in answer}) == 2
        recorded = [result["shareID"] for result in (node.record(pair) or {})["results"]]
        assert [device.share_id for device in answer] == recorded
        assert len({name for device in answer for name in device.cdi_device_ids}) == 2
        given = parts(node, first)
        assert (given, parts(node, pair)) == ([f"BYTES={GI}"], ["BYTES=1"] * 2)
    async with node.serving(config) as daemon:
        await node.offers(POOL, USB0)
        assert await node.prepare(pair) == answer
        assert parts(node, first) == given
        (device,) = (await daemon.resource(NAME))["devices"]
        holders = sorted(holder["holder"] for holder in device["holders"])
        assert holders == ["claim default/first", *["claim default/pair"] * 2]
        assert await node.unprepare(pair) == ""
        assert node.ran() == ["allocate ttyUSB0"] * 2
        later = await node.claim(name="later", consumed={"memory": "3Gi"})
        assert (await node.unprepare(later), await node.unprepare(first)) == ("", "")
        assert node.ran() == ["allocate ttyUSB0", "release ttyUSB0"]
        assert (node.given(first), node.record(first)) == ({}, None)


async def test_a_claim_that_was_deleted_by_force_keeps_its_part(node: DraNode) -> None:
    async with node.serving(shared()) as daemon:
        forced = await node.claim(name="forced", consumed={"memory": "2Gi"})
        other = await node.claim(name="other", consumed={"memory": "1Gi"})
        node.server.remove("resourceclaims", "forced", "default")
        most = node.allocate(USB0, name="most", consumed={"memory": "2Gi"})
        why = f"device {USB0} of {POOL} has too little capacity left next to claim default/forced"
        await node.refuses(most, f"{why}, which the API server no longer has: waiting for")
        await daemon.counts_so(lambda found: found["claims{gone}"] == 1)
        fitting = await node.claim(name="fitting", consumed={"memory": "1Gi"})
        await node.prepare(other)
        assert await node.unprepare(forced) == ""
        assert "next to claim default/other" in await node.refusal(
            node.allocate(USB0, name="most", consumed={"memory": "3Gi"})
        )
        await node.unprepare(fitting)
        await node.prepare(most)


async def test_without_support_of_the_api_server_a_claim_has_a_device_to_itself(
    node: DraNode,
) -> None:
    node.server.dropped = {
        "spec.devices.allowMultipleAllocations",
        "spec.devices.capacity.memory.requestPolicy",
    }
    async with node.serving(shared()) as daemon:
        claim = await node.claim()
        assert published(node) == {"capacity": {"memory": {"value": "4Gi"}}}
        assert parts(node, claim) == [f"BYTES={4 * GI}"]
        await node.is_held(USB0)
        lacks = (await daemon.status())["apiServerLacks"]
        assert lacks.startswith("the API server drops allowMultipleAllocations of devices")
        node.server.dropped = set()
        await node.server.stop()  # as for an upgrade
        await daemon.log.says("does not answer")
        await node.server.start()
        await node.until(lambda: "allowMultipleAllocations" in published(node))
        await daemon.log.says("the API server keeps all fields of devices")
        assert (await daemon.status())["apiServerLacks"] == ""
        # The one that has all of it still has.
        await node.refuses(
            node.allocate(USB0, name="part", consumed={"memory": "1Gi"}), "is prepared for claim"
        )


@pytest.mark.parametrize("other", [by_dra(), by_dra(replicas=4)], ids=["exclusive", "replicas"])
async def test_a_device_is_not_shared_in_two_ways_after_an_edit(
    node: DraNode, other: dict[str, object]
) -> None:
    async with node.serving(shared()) as daemon:
        claim = await node.claim(consumed={"memory": "1Gi"})
        (device,), given = await node.prepare(claim), node.given(claim)
        await takes(node, daemon, other)
        await node.until(lambda: node.pools()[POOL] == [])
        (shown,) = (await daemon.resource(NAME))["devices"]
        assert "claim default/claim holds it with sharing: capacity" in shown["reason"]
        assert (await node.prepare(claim), node.given(claim)) == ((device,), given)
        await node.unprepare(claim)
        await node.until(lambda: USB0 in node.pools()[POOL])
        exclusive = await node.claim(name="exclusive")
        await takes(node, daemon, shared())
        part = node.allocate(USB0, name="part", consumed={"memory": "1Gi"})
        await node.refuses(part, "is prepared for claim default/exclusive")
        await node.unprepare(exclusive)
        await node.prepare(part)


async def test_nothing_is_given_next_to_a_claim_of_another_version(node: DraNode) -> None:
    async with node.serving(shared()):
        claim = await node.claim(consumed={"memory": "1Gi"})
    node.edit_record(claim, version=99)
    async with node.serving(shared()):
        await node.offers(POOL, USB0)
        part = node.allocate(USB0, name="part", consumed={"memory": "1Gi"})
        assert "too little capacity left next to" in await node.refusal(part)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        pytest.param({"shareID": "../../etc"}, "its shareID is '../../etc'", id="no UUID"),
        pytest.param({"shareID": 5}, "no proper ResourceClaim", id="a number"),
        pytest.param({"consumedCapacity": {"memory": "1e99"}}, "'1e99' is not", id="huge"),
        pytest.param({"consumedCapacity": {"memory": "9" * 5000}}, "is not a quantity", id="long"),
        pytest.param({"consumedCapacity": {"memory": "-1"}}, "'-1' is not", id="negative"),
        pytest.param({"consumedCapacity": {"memory": "\ud800"}}, "is not a", id="a surrogate"),
        pytest.param({"consumedCapacity": {"memory": None}}, "no proper", id="missing"),
        pytest.param({"consumedCapacity": ["memory"]}, "no proper", id="a list"),
    ],
)  # fmt: skip
async def test_a_result_that_cannot_be_read_is_refused_for_its_claim_only(
    node: DraNode, result: dict[str, object], why: str
) -> None:
    async with node.serving(shared()):
        fine = await node.claim(name="fine", consumed={"memory": "1Gi"})
        broken = node.allocate(USB0, name="broken", consumed={"memory": "1Gi"})
        (claim,) = (
            object_
            for object_ in node.server.objects("resourceclaims")
            if object_["metadata"]["name"] == "broken"
        )
        claim["status"]["allocation"]["devices"]["results"][0] |= result
        node.server.put("resourceclaims", claim)
        assert why in await node.refusal(broken)
        await node.prepare(fine)
        assert parts(node, fine) == [f"BYTES={GI}"]


@pytest.mark.parametrize(
    ("consumed", "amount"),
    [("2", 2), ("1500m", 2), ("0", 0), ("1.5Gi", 3 * GI // 2), ("3e3", 3000), ("5k", 5000)],
)
async def test_an_amount_is_a_whole_number_for_containers(
    node: DraNode, consumed: str, amount: int
) -> None:
    async with node.serving(shared()):
        claim = await node.claim(consumed={"memory": consumed})
        assert parts(node, claim) == [f"BYTES={amount}"]
