"""Changes of ``servedBy``: of what is free and of what is held, and never by both at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from genericdp.kubelet.podresources import PodResourcesTiming
from genericdp.simulator.pods import Container, Pod

from tests.dra.node import NAME, NODE, OTHER, POOL, USB0, USB1, DraNode, by_dra, by_plugin
from tests.world import Daemon, resource

POD = Pod(uid="pod", containers=(Container(name="main", limits={NAME: 1}),))
SELDOM = PodResourcesTiming(pods_known=0.0, period=3600.0)
BY_PODS = "pods hold devices of it through the device plugin"
ENDS_FIRST = "its device plugin ends first"
NOT_DELETED = (
    "it cannot be known whether its ResourceSlices are deleted: another instance of genericdp on"
    " this node serves it"
)
BY_CLAIM = "claim default/claim has a device of it through DRA"


async def contested(daemon: Daemon, why: str, name: str = NAME) -> None:
    """Wait until a resource is served as before, for a reason; empty: until it is not."""
    await daemon.shows(name, lambda found: found["contested"] == why)


@pytest.fixture(name="node")
def never_by_both(node: DraNode) -> Iterator[DraNode]:
    """Fail if the kubelet can allocate a resource of which there are ResourceSlices, too."""
    found: list[str] = []

    def look() -> None:
        names = [pool.removeprefix(f"{NODE}/") for pool in node.pools()]
        found.extend(name for name in names if node.world.kubelet.allocatable(name))

    with node.world.kubelet.changes.calling(look), node.server.changes.calling(look):
        yield node
    assert not found


async def test_what_nobody_has_changes_its_back_end_either_way(node: DraNode) -> None:
    node.host.plug("ttyACM0", major=166)
    other = by_plugin(OTHER, "/dev/ttyACM*")
    async with node.serving(by_plugin(), other) as daemon:
        await node.world.listed(NAME, "ttyUSB0")
        assert not (node.root / "plugins/genericdp.io").exists()
        await daemon.takes(by_dra(), other)
        await node.offers(POOL, USB0)
        assert node.world.kubelet.capacity(NAME) == 0
        await daemon.registered(NAME)
        await daemon.log.says(f"{NAME}: servedBy: dra is active now")
        await daemon.takes(by_plugin(), other)
        await node.world.listed(NAME, "ttyUSB0")
        assert node.pools() == {}
        await daemon.log.says(f"{NAME}: servedBy: devicePlugin is active now")
        assert node.world.kubelet.observed.registrations[OTHER] == 1
        assert daemon.log.count("warning") == 0


@pytest.mark.parametrize(
    ("then", "now", "why"),
    [(by_plugin(), by_dra(), ENDS_FIRST), (by_dra(), by_plugin(), NOT_DELETED)],
    ids=["DRA waits for the device plugin", "the device plugin waits for DRA"],
)
async def test_one_back_end_waits_for_the_other_one_of_an_older_instance(
    node: DraNode, then: dict[str, object], now: dict[str, object], why: str
) -> None:
    async def is_served_by(by: dict[str, object]) -> None:
        await (node.offers(POOL, USB0) if "servedBy" in by else node.world.listed(NAME, "ttyUSB0"))

    async with AsyncExitStack() as old:
        await old.enter_async_context(node.serving(then))
        await is_served_by(then)
        async with node.serving(now, pod_resources_timing=SELDOM) as new:
            await contested(new, why)
            assert (await new.get("/readyz"))[0] == 200, "else an update would get stuck"
            await old.aclose()
            await is_served_by(now)


async def test_what_a_claim_has_is_offered_by_no_other_resource_of_the_device_plugin(
    node: DraNode,
) -> None:
    async with node.serving(by_dra()) as daemon:
        claim = await node.claim()
        await daemon.takes(by_plugin(OTHER))
        await daemon.log.says(f"claim default/claim has it as ttyUSB0 of {NAME}")
    async with node.serving(by_plugin(OTHER)) as daemon:
        await daemon.registered(OTHER)
        await daemon.log.says(f"claim default/claim has it as ttyUSB0 of {NAME}")
        assert node.world.kubelet.devices(OTHER) == {}
        await node.unprepare(claim)
        await node.world.listed(OTHER, "ttyUSB0")


async def test_what_a_pod_holds_stays_as_it_was_until_the_pod_is_gone(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_plugin(glob="/dev/ttyUSB0")) as daemon:
        await node.world.container(serial=1)
        await daemon.takes(by_dra(inject={"env": {"PORT": "$(device.path)"}}))
        await contested(daemon, BY_PODS)
        found = await daemon.resource(NAME)
        assert (found["servedBy"], found["registered"]) == ("devicePlugin", True)
        await daemon.counts_so(lambda found: found[f"resource_contested{{{NAME}}}"] == 1)
        assert set(node.world.kubelet.devices(NAME)) == {"ttyUSB0"}, "its old selector"
        await node.world.allocated(NAME, ["ttyUSB0"])
        node.world.kubelet.admitter.remove(POD)
        await node.offers(POOL, USB0, USB1)
        await daemon.shows(NAME, lambda found: found["servedBy"] == "dra")
        await daemon.counts_so(lambda found: f"resource_contested{{{NAME}}}" not in found)


async def test_what_a_claim_has_stays_as_it_was_until_the_claim_is_over(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    by = by_dra(glob="/dev/ttyUSB0")
    async with node.serving(by, pod_resources_timing=SELDOM) as daemon:
        claim = await node.claim()
        await daemon.takes(by_plugin())
        await contested(daemon, BY_CLAIM)
        assert (await daemon.resource(NAME))["servedBy"] == "dra"
        assert node.pools() == {POOL: [USB0]}
        await node.prepare(claim)
        await node.unprepare(claim)
        await node.world.listed(NAME, "ttyUSB0", "ttyUSB1")


async def test_a_pod_that_is_admitted_while_it_is_asked_keeps_its_device(node: DraNode) -> None:
    async with node.serving(by_plugin()) as daemon:
        await node.world.listed(NAME, "ttyUSB0")
        node.world.kubelet.faults.refuse_pod_resources = True
        await daemon.takes(by_dra())
        await daemon.shows(NAME, lambda found: "rejected by rate limit" in found["contested"])
        await node.world.container(serial=1)
        node.world.kubelet.faults.refuse_pod_resources = False
        await contested(daemon, BY_PODS)
        assert node.pools() == {}
        lines = len(daemon.log.lines)
        await daemon.takes(by_plugin())
        await contested(daemon, "")
        assert not any("active now" in line for line in daemon.log.lines[lines:])


async def test_what_dra_goes_on_serving_is_as_before_though_its_list_is_damaged(
    node: DraNode,
) -> None:
    async with node.serving(by_dra()):
        claim = await node.claim()
    node.settings.served_file.write_text('{"resources": 3}')
    node.server.requests.clear()
    async with node.serving(by_dra()) as daemon:
        await daemon.log.says("served.json is damaged and was renamed to served.bad")
        await node.is_held(USB0)
        await daemon.registered(NAME)
        assert json.loads(node.settings.served_file.read_text())["resources"] == [NAME]
        assert {request.verb for request in node.server.requests} <= {"get", "list", "watch"}
        assert await node.unprepare(claim) == ""
        await node.claim(name="next")


@pytest.mark.parametrize("content", ["", "{"])
async def test_a_restart_in_between_changes_nothing_for_a_claim(
    node: DraNode, content: str
) -> None:
    async with node.serving(by_dra()):
        claim = await node.claim()
    if content:
        node.settings.served_file.write_text(content)
    async with node.serving(by_plugin()) as daemon:
        if content:
            await daemon.log.says("served.json is damaged and was renamed to served.bad")
        await contested(daemon, BY_CLAIM)
    async with node.serving(by_plugin()) as daemon:
        await contested(daemon, BY_CLAIM)
        assert json.loads(node.settings.served_file.read_text())["resources"] == [NAME]
        await node.unprepare(claim)
        await node.world.listed(NAME, "ttyUSB0")


async def test_a_restart_in_between_changes_nothing_for_a_pod(node: DraNode) -> None:
    async with node.serving(by_plugin()):
        await node.world.container(serial=1)
    async with node.serving(by_dra()) as daemon:
        await contested(daemon, BY_PODS)
        await node.world.listed(NAME, "ttyUSB0")
        node.world.kubelet.admitter.remove(POD)
        await node.offers(POOL, USB0)


async def test_who_has_what_is_not_known_so_neither_serves_it_and_others_are_served(
    node: DraNode,
) -> None:
    node.host.plug("ttyACM0", major=166)
    node.settings.pod_resources.unlink()
    async with node.serving(by_dra(), by_plugin(OTHER, "/dev/ttyACM*")) as daemon:
        await daemon.log.says(f"there is no {node.settings.pod_resources}")
        await node.world.container(modem=1)
        found = await daemon.resource(NAME)
        assert not found["registered"]
        assert "cannot be known whether pods hold such devices already" in found["reason"]
        await daemon.counts_so(lambda found: found[f"registered{{{NAME}}}"] == 0)
        assert (node.world.kubelet.capacity(NAME), node.pools()) == (0, {})
        await node.world.kubelet.restart()
        await node.offers(POOL, USB0)
        await daemon.registered(NAME)


async def test_a_kubelet_that_has_just_started_may_not_know_its_pods_yet(node: DraNode) -> None:
    timing = PodResourcesTiming(pods_known=3600.0)
    async with node.serving(by_dra(), pod_resources_timing=timing) as daemon:
        await daemon.shows(NAME, lambda found: "less than 3600 s ago" in found["reason"])
        assert not (await daemon.resource(NAME))["registered"]
        assert node.pools() == {}


async def test_what_dra_has_served_is_unknown_at_the_start_so_the_device_plugin_waits(
    node: DraNode,
) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
    content = node.settings.served_file.read_text()
    node.settings.served_file.unlink()
    node.settings.served_file.symlink_to(node.settings.served_file)  # it leads in a circle
    async with node.serving(by_plugin()) as daemon:
        await daemon.shows(NAME, lambda found: "cannot be read" in found["reason"])
        assert NAME not in node.world.kubelet.observed.registrations
        node.settings.served_file.unlink()
        node.settings.served_file.write_text(content)
        await node.world.listed(NAME, "ttyUSB0")


async def test_what_dra_has_served_is_unknown_at_the_switch_to_it_so_all_stays_as_it_was(
    node: DraNode,
) -> None:
    served = node.settings.served_file
    async with node.serving(by_plugin()) as daemon:
        await node.world.container(serial=1)
        served.parent.mkdir()
        served.symlink_to(served)  # it leads in a circle
        await daemon.takes(by_dra())
        await daemon.shows(NAME, lambda found: "cannot be read" in found["contested"])
        assert (await daemon.resource(NAME))["servedBy"] == "devicePlugin"
        await node.world.allocated(NAME, ["ttyUSB0"])
        served.unlink()
        await contested(daemon, BY_PODS)
        node.world.kubelet.admitter.remove(POD)
        await node.offers(POOL, USB0)


async def test_dra_serves_nothing_that_its_list_cannot_be_extended_by(node: DraNode) -> None:
    """Else the device plugin would not wait for it after the next start."""
    own = node.settings.directory
    async with node.serving(by_plugin()) as daemon:
        await node.world.listed(NAME, "ttyUSB0")
        own.symlink_to("nowhere")
        await daemon.takes(by_dra())
        await daemon.shows(NAME, lambda found: "cannot be written" in found["reason"])
        assert (await daemon.resource(NAME))["servedBy"] == "devicePlugin"
        own.unlink()
        await node.offers(POOL, USB0)


async def test_the_device_plugin_waits_until_the_slices_are_deleted(node: DraNode) -> None:
    async with node.serving(by_dra()) as daemon:
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        with node.server.failing(verbs={"delete"}, status=403):
            await daemon.takes(by_plugin())
            await daemon.shows(NAME, lambda found: "refuses (403)" in found["reason"])
            assert not (await daemon.resource(NAME))["registered"]
            assert "not served by DRA now: its ResourceSlices" in await node.refusal(claim)
        await node.world.listed(NAME, "ttyUSB0")


async def test_what_dra_has_served_waits_for_the_api_server_after_a_restart(node: DraNode) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
    await node.server.stop()
    async with node.serving(by_plugin(), pod_resources_timing=SELDOM) as daemon:
        await daemon.shows(NAME, lambda found: "cannot be known whether" in found["reason"])
        await daemon.log.says("not served by devicePlugin yet: it cannot be known whether")
        await node.server.start()
        await node.world.listed(NAME, "ttyUSB0")
        assert node.pools() == {}


def by_model(**keys: object) -> dict[str, object]:
    return resource(
        "example.com/$(value.model)",
        "/dev/ttyUSB*",
        values={"model": {"file": "$(device.syspath)/model"}},
        names=["example.com/a", "example.com/b"],
        **keys,
    )


async def test_names_that_result_from_a_template_change_together(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    for number, model in enumerate("ab"):
        node.host.write(f"/sys/devices/virtual/tty/ttyUSB{number}/model", f"{model}\n")
    pools = {f"{NODE}/example.com/a": [USB0], f"{NODE}/example.com/b": [USB1]}
    async with node.serving(by_model()) as daemon:
        await node.world.container(a=1)
        await node.world.listed("example.com/b", "ttyUSB1")
        await daemon.takes(by_model(servedBy="dra"))
        for name in ("example.com/a", "example.com/b"):
            await contested(daemon, BY_PODS, name)
        node.world.kubelet.admitter.remove(Pod(uid="pod", containers=()))
        await node.until(lambda: node.pools() == pools)
        claim = node.allocate(USB1, pool=f"{NODE}/example.com/b")
        await node.prepare(claim)
        await daemon.takes(by_model())
        for name in ("example.com/a", "example.com/b"):
            await contested(daemon, BY_CLAIM, name)
        await node.unprepare(claim)
        await node.world.listed("example.com/a", "ttyUSB0")
        await node.world.listed("example.com/b", "ttyUSB1")


async def test_a_glob_of_the_device_plugin_leaves_names_to_dra(node: DraNode) -> None:
    node.host.write("/sys/devices/virtual/tty/ttyUSB0/model", "a\n")
    node.host.plug("ttyACM0", major=166)
    async with node.serving(
        {**by_model(), "names": ["example.com/*"]}, by_dra(OTHER, "/dev/ttyACM*")
    ) as daemon:
        await daemon.registered(OTHER)
        await node.world.listed("example.com/a", "ttyUSB0")
        await daemon.registered("example.com/a")
