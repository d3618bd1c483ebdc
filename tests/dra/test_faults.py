"""Faults around DRA are reported, heal without a restart, and harm nothing else."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

import pytest
from genericdp.devices.resourcenames import label

from tests.dra.node import NAME, NODE, OTHER, POOL, USB0, USB1, DraNode, by_dra
from tests.world import Daemon, resource


@asynccontextmanager
async def serving(node: DraNode, **keys: Any) -> AsyncIterator[Daemon]:
    """Serve a resource by DRA, and another by the device plugin, which must notice nothing."""
    node.host.plug("ttyACM0", major=166)
    other = resource(OTHER, "/dev/ttyACM*")
    kubelet = node.world.kubelet
    async with node.serving(by_dra(**keys), other) as daemon:
        yield daemon
        await node.world.listed(OTHER, "ttyACM0")
        await daemon.registered(OTHER)
        await node.world.allocated(OTHER, ["ttyACM0"])
        assert kubelet.observed.registrations[OTHER] == 1
        assert not [line for line in daemon.log.lines if line.startswith("error")]


async def reported(daemon: Daemon, *why: str) -> None:
    """Wait until it is reported that claims get nothing, and why."""
    await daemon.shows(
        NAME,
        lambda found: not found["registered"] and all(reason in found["reason"] for reason in why),
    )
    await daemon.counts_so(lambda found: found[f"registered{{{NAME}}}"] == 0)
    for each_reason in why:
        await daemon.log.says(each_reason)


async def healed(node: DraNode, daemon: Daemon, *names: str) -> None:
    """Wait until all is well: claims get their devices."""
    await node.offers(POOL, *(names or (USB0,)))
    await daemon.registered(NAME)
    await daemon.counts_so(lambda found: found[f"registered{{{NAME}}}"])
    claim = node.allocate(USB0, name="after")
    await node.prepare(claim)
    assert await node.unprepare(claim) == ""
    node.server.remove("resourceclaims", "after", "default")


@pytest.mark.parametrize(
    ("fault", "why", "counted"),
    [
        pytest.param({"status": 401}, "does not accept the token", "401,get", id="401"),
        pytest.param({"status": 403}, "the ClusterRole", "403,get", id="403"),
        pytest.param({"cut": True}, "does not answer", "unreachable,get", id="truncated"),
        pytest.param({"status": 500}, "answers 500", "500,create", id="500 later"),
        pytest.param({"status": 422}, "answers 422", "422,create", id="422 later"),
    ],
)
async def test_an_api_server_that_fails_at_the_start_or_later(
    node: DraNode, fault: dict[str, Any], why: str, counted: str
) -> None:
    later = counted.endswith("create")
    with ExitStack() as faults:
        if not later:
            faults.enter_context(node.server.failing(**fault))
        async with serving(node) as daemon:
            if later:
                await healed(node, daemon)
                faults.enter_context(node.server.failing(verbs={"create"}, **fault))
                node.server.wipe(NODE)
            await reported(daemon, why)
            await daemon.counts_so(lambda found: found.get(f"api_requests_total{{{counted}}}"))
            faults.close()
            await healed(node, daemon)


async def test_an_api_server_that_is_gone_for_a_while(node: DraNode) -> None:
    async with serving(node) as daemon:
        await healed(node, daemon)
        claim = await node.claim()
        await node.server.stop()
        node.host.plug("ttyUSB1")
        await reported(daemon, "the API server", "Connection refused")
        assert await node.unprepare(claim) == ""
        await node.server.start()
        await healed(node, daemon, USB0, USB1)


@pytest.mark.parametrize("at_first", [True, False])
async def test_a_node_that_is_made_later_or_anew(node: DraNode, *, at_first: bool) -> None:
    if at_first:
        node.server.remove("nodes", NODE)
    async with serving(node) as daemon:
        if not at_first:
            await healed(node, daemon)
            node.server.remove("nodes", NODE)
            node.server.collect_garbage()
        await reported(daemon, f"the cluster has no Node {NODE} (see --node-name)")
        assert node.server.objects("resourceslices") == []
        uid = node.server.add_node(NODE)["metadata"]["uid"]
        await healed(node, daemon)
        (only,) = node.server.objects("resourceslices")
        assert only["metadata"]["ownerReferences"][0]["uid"] == uid


async def test_a_kubeconfig_that_is_missing_or_broken_until_it_is_right(node: DraNode) -> None:
    file = node.settings.kubeconfig
    assert file is not None
    right = file.read_text()
    file.unlink()
    async with serving(node) as daemon:
        await reported(daemon, f"{file}")
        claim = node.allocate(USB0)
        assert f"{file}" in await node.refusal(claim)
        file.write_text(right.replace(node.server.url, "http://127.0.0.1:1"))
        await reported(daemon, "http://127.0.0.1:1 does not answer")
        file.write_text(right)
        await healed(node, daemon)


@pytest.mark.parametrize(
    ("taken", "why"),
    [
        pytest.param("lock", "is a directory", id="lock"),
        pytest.param("claims", "not a directory", id="claims"),
        pytest.param("dra.sock", "it is not a socket", id="socket"),
    ],
)
async def test_a_place_that_something_else_has_taken(node: DraNode, taken: str, why: str) -> None:
    path = node.state_directory / taken
    async with node.serving(by_dra()) as first:
        await first.registered(NAME)
    if taken == "claims":
        path.rmdir()
        path.touch()
    else:
        path.unlink(missing_ok=True)
        path.mkdir()
    async with serving(node) as daemon:
        await reported(daemon, f"{node.state_directory}", why)
        path.unlink() if path.is_file() else path.rmdir()
        await healed(node, daemon)


async def test_a_directory_of_the_driver_that_is_removed_comes_back(node: DraNode) -> None:
    async with serving(node) as daemon:
        await healed(node, daemon)
        claim = await node.claim()
        files = {file.relative_to(node.state_directory) for file in node.state_directory.rglob("*")}
        record = node.record(claim)
        shutil.rmtree(node.state_directory)
        await daemon.log.says(f"another process has removed {node.state_directory}")
        await node.until(
            lambda: (
                files
                == {
                    file.relative_to(node.state_directory)
                    for file in node.state_directory.rglob("*")
                }
            )
        )
        assert node.record(claim) == record
        await node.is_held(USB0)
        assert await node.unprepare(claim) == ""
        await healed(node, daemon)


async def test_a_kubelet_that_refuses_the_driver_for_a_while(node: DraNode) -> None:
    node.kubelet.refusal = "not today"
    async with serving(node) as daemon:
        await reported(daemon, "the kubelet refuses the driver: not today")
        node.kubelet.refusal = ""
        await healed(node, daemon)


async def test_a_second_instance_serves_as_device_plugin_and_takes_dra_over(node: DraNode) -> None:
    other = resource(OTHER, "/dev/ttyACM*")
    node.host.plug("ttyACM0", major=166)
    async with AsyncExitStack() as first_runs:
        first = await first_runs.enter_async_context(node.serving(by_dra(), other))
        await healed(node, first)
        claim = await node.claim()
        async with node.serving(by_dra(), other) as second:
            await second.log.says("another instance serves the DRA driver")
            await second.shows(NAME, lambda found: "another instance" in found["contested"])
            await second.registered(OTHER)
            assert (await second.get("/readyz"))[0] == 200
            await second.counts_so(lambda found: found[f"resource_contested{{{NAME}}}"] == 1)
            await node.world.container(modem=1)
            await first_runs.aclose()
            await second.shows(NAME, lambda found: not found["contested"] and found["registered"])
            await node.offers(POOL, USB0)
            await node.world.listed(OTHER, "ttyACM0")
            await node.is_held(USB0)
            assert await node.unprepare(claim) == ""


async def test_one_instance_serves_after_the_directory_of_the_driver_was_removed(
    node: DraNode,
) -> None:
    async with serving(node) as first, node.serving(by_dra()):
        await healed(node, first)
        claim = await node.claim()
        record = node.record(claim)
        await first.log.says("another instance serves the DRA driver")
        shutil.rmtree(node.state_directory)
        await first.log.says("another instance serves the DRA driver", times=2)
        assert first.log.count("another process has removed") == 1, "the other one took it, too"
        await node.is_held(USB0)
        assert node.record(claim) == record
        assert await node.unprepare(claim) == ""


async def test_a_hook_that_hangs_holds_up_its_own_claim_only(node: DraNode) -> None:
    gate = node.directory / "gate"
    hang = f'[ "$GENERICDP_DEVICE_ID" != ttyUSB0 ] || [ -e {gate} ] || exec sleep 600'
    hooks = {"allocate": {**node.hook("allocate", hang), "timeoutSeconds": 6}}
    node.host.plug("ttyUSB1")
    async with serving(node, hooks=hooks) as daemon:
        await node.offers(POOL, USB0, USB1)
        slow = node.allocate(USB0, name="slow")
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(node.prepare(slow))
            await node.until(lambda: node.record(slow) is not None)
            await node.prepare(node.allocate(USB1, name="quick"))
            node.host.plug("ttyUSB2")
            await node.claim(label("ttyUSB2"), name="new")
            await node.world.container(modem=1)
            call.cancel()  # as the kubelet does in the end
        key = f"allocations_total{{{NAME},cancelled}}"
        await daemon.counts_so(lambda found: found.get(key) == 1)
        gate.touch()
        await node.prepare(slow)
        assert await node.unprepare(slow) == ""
