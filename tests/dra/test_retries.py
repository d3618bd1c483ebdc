"""Registration, Prepare and Unprepare that fail are repeated, also by a restarted kubelet.

The cases are those of Kubernetes' own node tests of DRA that no other test here is about.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from genericdp.devices.resourcenames import label
from genericdp.kubelet.api.dra_pb2 import Claim as ClaimRef

from tests.dra.kubelet import DraCallError
from tests.dra.node import DRIVER, NAME, NODE, OTHER, POOL, USB0, DraNode, by_dra, result

SECOND = "second.example.com"


async def failed(node: DraNode) -> None:
    """Wait until the kubelet could not register the driver once more."""
    before = len(node.kubelet.failures.value)
    await node.until(lambda: len(node.kubelet.failures.value) > before)


async def test_a_kubelet_that_fails_to_tell_that_it_has_taken_the_driver_takes_it_again(
    node: DraNode,
) -> None:
    node.kubelet.notify_seconds = 0.0
    async with node.serving(by_dra()) as daemon:
        await failed(node)
        why = "the kubelet has asked, but has not taken the driver yet"
        await daemon.shows(NAME, lambda found: found["reason"] == why)
        assert node.pools() == {}, "nothing is written for a driver that is not registered"
        node.kubelet.notify_seconds = 5.0
        await daemon.registered(NAME)
        await node.claim()


@pytest.mark.parametrize("does", ["exit 3", "exec sleep 1000"], ids=["fails", "hangs"])
@pytest.mark.parametrize("call", ["allocate", "release"])
async def test_what_fails_or_is_in_progress_when_the_kubelet_restarts_is_done_afterwards(
    node: DraNode, call: str, does: str
) -> None:
    hooks, go, log = node.hooks(), node.directory / "go", node.directory / "log"
    node.hook(call, f"[ -e {go} ] || {does}")
    async with node.serving(by_dra(hooks=hooks)), asyncio.TaskGroup() as tasks:
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        if call == "release":
            await node.prepare(claim)
        first = tasks.create_task(why_not(node, claim, call))
        await node.until(lambda: log.exists() and call in log.read_text())
        if does == "exit 3":
            assert "exited with 3" in await first
        await node.kubelet.restart()
        assert await first
        await node.offers(POOL, USB0)
        await node.kubelet.wait_for(DRIVER)
        node.ran()
        go.touch()
        assert await why_not(node, claim, call) == ""
        assert node.ran() == [f"{call} ttyUSB0"]
        if call == "allocate":
            assert node.host_paths(claim) == ["/dev/ttyUSB0"]
            assert await node.unprepare(claim) == ""
        assert (node.given(claim), node.record(claim)) == ({}, None)


async def why_not(node: DraNode, claim: ClaimRef, call: str, driver: str = DRIVER) -> str:
    """Return why a call about a claim has failed; empty: it has not."""
    try:
        if call == "release":
            return (await node.kubelet.unprepare(driver, claim))[claim.uid]
        answer = (await node.kubelet.prepare(driver, claim))[claim.uid]
        return answer if isinstance(answer, str) else ""
    except DraCallError as error:
        return str(error)


async def test_each_of_two_drivers_does_its_part_of_a_claim_whatever_fails_in_the_other(
    node: DraNode,
) -> None:
    node.host.plug("ttyACM0", major=166)
    pool, modem = f"{NODE}/{OTHER}", label("ttyACM0")
    second = by_dra(OTHER, "/dev/ttyACM*", hooks=node.hooks())
    async with (
        node.serving(by_dra()),
        node.serving(second, dra=replace(node.settings, driver=SECOND)),
    ):
        await node.offers(POOL, USB0)
        await node.offers(pool, modem)
        claim = node.allocate(USB0)
        other = result(request="modem", driver=SECOND, pool=pool, device=modem)
        node.change("claim", results=[result(), other])
        for call in ("allocate", "release"):
            node.hook(call, "exit 3")
            for _ in range(2):  # the kubelet calls both again
                assert await why_not(node, claim, call) == ""
                assert "exited with 3" in await why_not(node, claim, call, SECOND)
            node.hook(call)
            assert await why_not(node, claim, call, SECOND) == ""
            assert len([*node.cdi_directory.iterdir()]) == (2 if call == "allocate" else 0)
