"""Devices that claims share by capacity."""

from __future__ import annotations

from typing import Any

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
        assert (await daemon.status())["apiServerLacks"] == ""
        # The one that has all of it still has.
        await node.refuses(
            node.allocate(USB0, name="part", consumed={"memory": "1Gi"}), "is prepared for claim"
        )


async def test_a_device_is_not_shared_in_two_ways_after_an_edit(
    node: DraNode,
) -> None:
    async with node.serving(shared()) as daemon:
        claim = await node.claim(consumed={"memory": "1Gi"})
        (device,), given = await node.prepare(claim), node.given(claim)
        await takes(node, daemon, by_dra(replicas=4))
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
