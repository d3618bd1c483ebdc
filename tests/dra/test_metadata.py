"""Files in which containers read the attributes of the devices of their claims.

``metadata_of_go.txt`` was written by the helper for drivers in Go, ``kubeletplugin/metadata.go`` of
k8s.io/dynamic-resource-allocation 0.37.0, for the claim in the first test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from genericdp.devices.resourcenames import label
from genericdp.kubelet.api import dra_pb2 as api

from tests.dra.node import DRIVER, NAME, NODE, OTHER, POOL, USB0, USB1, DraNode, by_dra
from tests.dra.test_claims import POD_CLAIM

FILE_OF_GO = Path(__file__).with_name("metadata_of_go.txt")
INSIDE = "/var/run/kubernetes.io/dra-device-attributes"
DESCRIBED = by_dra(
    metadata=True,
    attributes={
        "port": "über",
        "baud": {"int": "9600"},
        "powered": {"bool": "no"},
        "firmware": {"version": "1.2"},
    },
)


def files(node: DraNode) -> list[Path]:
    """Return the files that there are on the host."""
    return sorted((node.state_directory / "metadata").glob("*"))


def mounts(node: DraNode, claim: api.Claim) -> dict[str, dict[str, Any]]:
    """Return the mounts of a claim's CDI devices, by their full names."""
    given = node.given(claim).items()
    return {name: edits["mounts"][0] for name, edits in given if "mounts" in edits}


def described(node: DraNode, claim: api.Claim) -> list[dict[str, Any]]:
    """Return the devices that the one file of a claim lists."""
    (mount,) = mounts(node, claim).values()
    newest, _ = json.JSONDecoder().raw_decode(Path(mount["hostPath"]).read_text())
    return list(newest["requests"][0]["devices"])


async def test_the_file_of_a_request_is_what_the_helper_in_go_writes(node: DraNode) -> None:
    node.host.plug("ttyACM0", major=166)
    async with node.serving(DESCRIBED, by_dra(OTHER, "/dev/ttyACM*")):
        await node.offers(POOL, USB0)
        await node.offers(f"{NODE}/{OTHER}", modem := label("ttyACM0"))
        claim = node.allocate(
            name="sensors", requests={"out/any": (USB0,)}, annotations={POD_CLAIM: "left"}
        )
        (found,) = node.server.objects("resourceclaims")
        results = found["status"]["allocation"]["devices"]["results"]
        # It has no metadata, and it is in the file, as one of the request.
        results.append({**results[0], "pool": f"{NODE}/{OTHER}", "device": modem})
        node.server.put("resourceclaims", found)
        first, second = await node.prepare(claim)
        (file,) = files(node)
        assert file.read_text() == FILE_OF_GO.read_text().replace("UID", claim.uid)
        assert file.stat().st_mode & 0o777 == 0o644
        ((name, mount),) = mounts(node, claim).items()
        assert mount == {
            "hostPath": str(file),
            "containerPath": f"{INSIDE}/resourceclaimtemplates/left/out/{DRIVER}-metadata.json",
            "options": ["ro", "bind"],
        }
        assert list(first.cdi_device_ids) == [name]
        assert name not in second.cdi_device_ids, "it comes once a request"


async def test_a_file_has_all_attributes_of_the_slice_and_a_claim_one_for_each_request(
    node: DraNode,
) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra(metadata=True, replicas=2, attributes={"x": "$(device.name)"})):
        await node.until(lambda: len(node.pools().get(POOL, ())) == 4)
        (slice_,) = node.server.objects("resourceslices")
        listed = {device["name"]: device for device in slice_["spec"]["devices"]}
        names = sorted(listed)
        requests = {"both": (names[0], names[1]), "in": (names[2],)}
        claim = node.allocate(name="my.sensors", requests=requests)
        prepared = await node.prepare(claim)
        given = mounts(node, claim)
        assert [mount["containerPath"] for mount in given.values()] == [
            f"{INSIDE}/resourceclaims/my.sensors/{request}/{DRIVER}-metadata.json"
            for request in requests
        ]
        asked = [[name for name in device.cdi_device_ids if name in given] for device in prepared]
        of_both, of_in = given
        assert asked == [[of_both], [], [of_in]]
        for mount, devices in zip(given.values(), requests.values(), strict=True):
            newest, _ = json.JSONDecoder().raw_decode(Path(mount["hostPath"]).read_text())
            (request,) = newest["requests"]
            about = {"driver": DRIVER, "pool": POOL}
            assert request["devices"] == [about | listed[device] for device in devices]
            assert "podClaimName" not in newest


async def test_a_file_stays_as_it_was_when_its_claim_was_prepared_and_ends_with_it(
    node: DraNode,
) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(DESCRIBED) as daemon:
        claim = await node.claim()
        (file,) = files(node)
        content, given = file.read_text(), node.given(claim)
        await daemon.takes(by_dra(attributes={"port": "other"}))
        await node.until(lambda: "other" in json.dumps(node.server.objects("resourceslices")))
        file.unlink()
        await node.until(file.exists)
        assert file.read_text() == content
        file.write_text("changed")
        await node.prepare(claim)
        assert file.read_text() == content
        file.unlink()
        file.parent.rmdir()
        await node.until(file.exists)
        assert node.given(claim) == given
        later = await node.claim(USB1, name="later")
        assert mounts(node, later) == {}, "its resource has no metadata any more"
        assert await node.unprepare(claim) == ""
        assert files(node) == []


async def test_files_that_no_claim_has_are_removed_at_the_start_and_come_back_after_a_boot(
    node: DraNode,
) -> None:
    async with node.serving(DESCRIBED):
        claim = await node.claim()
    (file,) = files(node)
    content = file.read_text()
    for name in ("gone_0.json", ".genericdp-half"):
        file.with_name(name).touch()
    async with node.serving(DESCRIBED):
        await node.kubelet.wait_for(DRIVER)
        assert files(node) == [file]
    node.edit_record(claim, bootID="another")
    async with node.serving(DESCRIBED):
        await node.kubelet.wait_for(DRIVER)
        assert files(node) == [], "its containers ended with the boot"
        await node.prepare(claim)
        assert file.read_text() == content


async def test_a_claim_whose_file_cannot_be_written_is_refused_until_it_can(node: DraNode) -> None:
    directory = node.state_directory / "metadata"
    async with node.serving(DESCRIBED):
        await node.offers(POOL, USB0)
        directory.touch()
        claim = node.allocate(USB0)
        assert str(directory) in await node.refusal(claim)
        assert node.given(claim) == {}, "there is no spec that mounts what is missing"
        directory.unlink()
        await node.prepare(claim)


async def test_a_claim_waits_until_the_version_of_the_node_is_known(node: DraNode) -> None:
    node.server.remove("nodes", NODE)
    async with node.serving(DESCRIBED) as daemon:
        claim = node.allocate(USB0)
        await node.refuses(claim, "the API server has not said yet which version")
        node.server.add_node(NODE, kubelet_version="v1.35.0")
        await node.offers(POOL, USB0)
        await node.prepare(claim)
        (device,) = described(node, claim)
        assert device["attributes"]["extendedResource"] == {"bool": False}
        await daemon.registered(NAME)
