"""Claims of a node: what containers get for them, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from genericdp.dra.claims import read_records
from genericdp.settings import ClaimTiming

from tests.dra.node import DRIVER, NAME, POOL, USB0, USB1, DraNode, by_dra
from tests.memory import little_memory

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"


async def test_a_claim_gives_the_node_of_its_device_until_it_is_over(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra()) as daemon:
        claim = await node.claim(USB1)
        await daemon.log.says(
            f"info {NAME}: claim default/claim of pod default/reader gets ttyUSB1"
        )
        answer = (device,) = await node.prepare(claim)
        assert (device.pool_name, device.device_name) == (POOL, USB1)
        assert list(device.cdi_device_ids) == list(node.given(claim))
        assert node.host_paths(claim) == ["/dev/ttyUSB1"]
        given = node.given(claim)
        (file,) = node.cdi_directory.iterdir()
        file.unlink()
        assert await node.prepare(claim) == answer
        assert node.given(claim) == given
        assert node.allocate(USB0) == claim
        await node.prepare(claim)
        assert node.host_paths(claim) == ["/dev/ttyUSB0"]
        record = node.record_file(claim)
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (record, record.parent)]
        assert modes == [0o600, 0o700], "it has the parameters of the claim"
        assert await node.unprepare(claim) == ""
        assert (node.given(claim), node.record(claim)) == ({}, None)
        assert await node.unprepare(claim) == ""  # as often as the kubelet asks


async def test_the_status_has_pods_and_names_in_slices_of_a_claimed_device(node: DraNode) -> None:
    def pods(found: dict[str, Any]) -> list[str]:
        return [pod for holder in found["devices"][0]["holders"] for pod in holder["pods"]]

    settings = replace(node.settings, claim_timing=ClaimTiming(period=0.1))
    async with node.serving(by_dra(), dra=settings) as daemon:
        claim = await node.claim()
        found = await daemon.resource(NAME)
        assert found["dra"] == {"driver": DRIVER, "pool": POOL}
        assert found["devices"][0]["dra"]["devices"] == [USB0]
        assert (found["allocated"], pods(found)) == (1, ["default/reader"])
        assert node.allocate(USB0, pods=("reader", "second")) == claim
        await daemon.shows(NAME, lambda found: pods(found) == ["default/reader", "default/second"])
        assert await node.unprepare(claim) == ""
        await daemon.shows(NAME, lambda found: found["devices"][0]["holders"] == [])


async def test_a_claim_that_the_api_server_does_not_tell_is_refused_with_the_reason(
    node: DraNode,
) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        gone = node.allocate(USB0, name="gone")
        node.server.remove("resourceclaims", "gone", "default")
        assert await node.refusal(gone) == "there is no such claim any more"
        again = node.allocate(USB0, name="gone")
        assert await node.refusal(gone) == f"it has been created again: its UID is {again.uid} now"
        for status in (500, 404):  # nor is a claim gone because its API is
            with node.server.failing(status=status, reason="Disabled", verbs={"get"}):
                assert str(status) in await node.refusal(again)
        await node.prepare(again)
        await node.server.stop()
        assert "the API server" in await node.refusal(node.allocate(USB0, name="other"))
        assert await node.unprepare(again) == ""


async def test_specs_follow_devices_while_a_release_hook_is_slow(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    end = node.directory / "end"
    slow = node.hook("release", f"until [ -e {end} ]; do sleep 0.01; done")
    by = by_dra(hooks={"release": slow})
    async with node.serving(by) as daemon, asyncio.TaskGroup() as tasks:
        first, second = await node.claim(name="first"), await node.claim(USB1, name="second")
        ending = tasks.create_task(node.unprepare(first))
        await node.until((node.directory / "log").exists)
        node.host.unplug("ttyUSB1")
        await node.until(lambda: node.given(second) == {})
        node.host.plug("ttyUSB1", minor=9)
        await daemon.offers(NAME, ttyUSB0="", ttyUSB1="")
        await node.until(lambda: node.given(second) != {})
        (node.cdi_directory / f"genericdp-claim_{DRIVER}_{second.uid}.json").unlink()
        await node.until(lambda: node.given(second) != {})
        assert node.record(first) is not None
        end.touch()
        assert await ending == ""


@pytest.mark.parametrize(
    "content",
    ["{", '{"version": 1, "uid": 3}', "directory", "pipe", "too big"],
)
async def test_a_record_without_readable_holds_blocks_new_claims_until_it_is_removed(
    node: DraNode, content: str
) -> None:
    async with node.serving(by_dra()):
        claim = await node.claim()
    file = node.record_file(claim)
    file.unlink()
    if content == "directory":
        file.mkdir()
    elif content == "pipe":
        os.mkfifo(file)
    else:
        file.write_text(content if content != "too big" else "[" + " " * 4 * 1024 * 1024)
    async with node.serving(by_dra()) as daemon:
        await daemon.shows(NAME, lambda found: str(file) in found["reason"])
        other = node.allocate(USB0, name="other")
        refusal = await node.refusal(other)
        assert f"{file} does not say which hardware its claim has" in refusal
        assert f"genericdp claims release {claim.uid}" in refusal
        assert node.given(claim), "its container may be started again"
        if content == "pipe":
            file.unlink()
            await daemon.registered(NAME)
        else:
            assert await node.unprepare(claim) == ""
            assert node.given(claim) == {}
        await node.prepare(other)


def test_a_record_of_tiny_values_does_not_become_large_in_memory(tmp_path: Path) -> None:
    (tmp_path / "uid.json").write_bytes(b"[" + b"{}," * 1_300_000 + b"{}]")
    with little_memory():
        (record,) = read_records(tmp_path)
    assert record.why == "it is damaged: ValueError: it has more than 300,000 values"


async def test_a_claim_whose_record_or_spec_cannot_be_written_has_nothing_until_it_can(
    node: DraNode,
) -> None:
    async with node.serving(by_dra()) as daemon:
        await node.offers(POOL, USB0)
        claim, records = node.allocate(USB0), node.state_directory / "claims"
        records.rmdir()
        records.touch()
        for name in ("first", "second"):
            assert f"{records}" in await node.refusal(node.allocate(USB0, name=name))
        errors = f"allocations_total{{{NAME},error}}"
        await daemon.counts_so(lambda found: (found["claims{prepared}"], found[errors]) == (0, 2))
        records.unlink()  # which is its own, and made again
        node.cdi_directory.rmdir()
        assert await node.refusal(claim) == f"{node.cdi_directory}: no such file or directory"
        node.cdi_directory.mkdir()
        await node.prepare(claim)
        assert node.given(claim)
        assert node.record(claim)
