"""Devices that claims share by capacity."""

from __future__ import annotations

from typing import Any

from genericdp.kubelet.api import dra_pb2 as api

from tests.dra.node import NAME, POOL, USB0, DraNode, by_dra

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
