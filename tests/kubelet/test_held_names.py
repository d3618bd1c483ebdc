"""No edit of a config offers hardware under another name while a pod has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from genericdp.kubelet.podresources import PodResourcesTiming
from genericdp.simulator.pods import Container, Pod
from genericdp.simulator.settings import Generation
from tests.world import World, serial

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OLD, NEW = "example.com/serial", "example.com/port"
POD = Pod(uid="pod", containers=(Container(name="main", limits={OLD: 1}),))
PROMPT = PodResourcesTiming(period=0.05, refresh=0.2, pods_known=0.5)
RENAMED = serial(id="new-$(device.name)")
HOLDER = "pod default/pod has it as ttyUSB0 of example.com/serial"


@pytest.fixture(params=list(Generation), ids=lambda generation: f"generation-{generation}")
def world(request: pytest.FixtureRequest, short_folder: Path) -> World:
    socket = short_folder / "p" / "kubelet.sock"
    world = World(short_folder, generation=request.param, pod_resources=socket)
    world.host.plug("ttyUSB0")
    return world


@pytest.fixture
def settings(world: World) -> dict[str, Any]:
    return {
        "pod_resources": world.folder / "p" / "kubelet.sock",
        "pod_resources_timing": PROMPT,
        "state_dir": world.folder / "state",
    }


def is_refused(found: Mapping[str, Any]) -> bool:
    """Return whether ``/status`` says who has the device under its former name."""
    return any(HOLDER in one["reason"] for one in found["notOffered"])


async def devices_are(world: World, name: str = OLD, **devices: str) -> None:
    wanted = {one.replace("_", "-"): health for one, health in devices.items()}
    await world.kubelet.wait_for(lambda: world.kubelet.devices(name) == wanted, 30)


async def test_a_held_id_stays_until_its_pod_ends_and_then_becomes_the_new_one(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), **settings) as daemon:
        await world.container(serial=1)
        await daemon.takes(RENAMED)
        await daemon.shows(OLD, lambda found: found["devices"][0]["holders"])
        await devices_are(world, ttyUSB0="Healthy")
        world.kubelet.admitter.remove(POD)
        await devices_are(world, new_ttyUSB0="Healthy", ttyUSB0="Unhealthy")


async def test_an_id_that_no_pod_holds_becomes_the_new_one_once_that_is_proven(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), **settings) as daemon:
        await world.listed(OLD, "ttyUSB0")
        await daemon.takes(RENAMED)
        await devices_are(world, new_ttyUSB0="Healthy", ttyUSB0="Unhealthy")
        assert daemon.log.count("device ttyUSB0 is Unhealthy: it becomes new-ttyUSB0 once") == 1


async def test_a_renamed_resource_offers_nothing_that_a_pod_has_under_the_former_name(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), **settings) as daemon:
        await world.container(serial=1)
        await daemon.takes(serial(NEW))
        await daemon.shows(NEW, is_refused)
        assert world.kubelet.devices(NEW) == {}
        world.kubelet.admitter.remove(POD)
        await world.listed(NEW, "ttyUSB0")


@pytest.mark.parametrize("edit", [RENAMED, serial(NEW)], ids=["id", "resource"])
async def test_an_edit_during_a_restart_is_held_up_as_well(
    world: World, settings: dict[str, Any], edit: Mapping[str, object]
) -> None:
    async with world.kubelet:
        async with world.serving(serial(), **settings):
            await world.container(serial=1)
        async with world.serving(edit, **settings) as daemon:
            if edit is RENAMED:
                await daemon.shows(OLD, lambda found: found["devices"][0]["holders"])
                await devices_are(world, ttyUSB0="Healthy")
            else:
                await daemon.shows(NEW, is_refused)
            world.kubelet.admitter.remove(POD)
            name, listed = (OLD, "new-ttyUSB0") if edit is RENAMED else (NEW, "ttyUSB0")
            await world.listed(name, listed)


async def test_the_order_of_resources_moves_no_device_that_a_pod_has(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), serial(NEW), **settings) as daemon:
        await world.container(serial=1)
        await daemon.takes(serial(NEW), serial())
        await daemon.shows(NEW, is_refused)
        await devices_are(world, ttyUSB0="Healthy")
        world.kubelet.admitter.remove(POD)
        await world.listed(NEW, "ttyUSB0")


async def test_what_the_config_excludes_is_withdrawn_at_once_although_it_is_held(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), **settings) as daemon:
        await world.container(serial=1)
        excluded = serial(exclude=[{"path": "/dev/ttyUSB0"}])
        await daemon.takes(excluded, serial(NEW))
        await devices_are(world, ttyUSB0="Unhealthy")
        await daemon.shows(NEW, is_refused)


async def test_a_device_that_a_pod_has_alone_gets_no_shares_until_the_pod_ends(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), **settings) as daemon:
        await world.container(serial=1)
        await daemon.takes(serial(replicas=2))
        await world.kubelet.wait_for(
            lambda: world.kubelet.devices(OLD) == {"ttyUSB0": "Healthy", "ttyUSB0::1": "Unhealthy"},
            30,
        )
        world.kubelet.admitter.remove(POD)
        await world.listed(OLD, "ttyUSB0", "ttyUSB0::1")


async def test_a_shared_device_is_given_to_no_pod_alone_while_another_has_a_share(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(replicas=3), **settings) as daemon:
        await world.listed(OLD, "ttyUSB0", "ttyUSB0::1", "ttyUSB0::2")
        await world.container(serial=1)
        await daemon.shows(OLD, lambda found: found["devices"][0]["holders"])
        ((held,),) = [one["holders"] for one in (await daemon.resource(OLD))["devices"]]
        await daemon.takes(serial())
        await world.listed(OLD, held["share"])
        world.kubelet.admitter.remove(POD)
        await devices_are(world, ttyUSB0="Healthy")


async def test_without_an_answer_of_the_kubelet_a_held_id_stays_as_it_is(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), **settings) as daemon:
        await world.container(serial=1)
        world.kubelet.faults.refuse_pod_resources = True
        await daemon.takes(RENAMED)
        await daemon.log.says("the kubelet does not say which devices pods hold")
        world.host.plug("ttyUSB1")
        await world.listed(OLD, "ttyUSB0", "new-ttyUSB1")
        assert (await daemon.status())["holders"]["known"] is False


async def test_without_pod_resources_an_edit_renames_at_once(world: World) -> None:
    async with world.kubelet, world.serving(serial()) as daemon:
        await world.container(serial=1)
        await daemon.takes(RENAMED)
        await devices_are(world, new_ttyUSB0="Healthy", ttyUSB0="Unhealthy")


async def test_after_a_restart_without_pod_resources_the_log_names_both_ids(world: World) -> None:
    state = world.folder / "state"
    async with world.kubelet:
        async with world.serving(serial(), state_dir=state):
            await world.listed(OLD, "ttyUSB0")
        async with world.serving(RENAMED, state_dir=state) as daemon:
            await world.listed(OLD, "new-ttyUSB0")
            both = f"device new-ttyUSB0 of {OLD} was ttyUSB0 of {OLD} before: pods may hold it"
            assert daemon.log.count(both) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 0}', '{"version": 1}', "\0"])
async def test_a_damaged_ledger_is_put_aside_and_reported(
    world: World, settings: dict[str, Any], content: str
) -> None:
    ledger = world.folder / "state" / "ledger.json"
    ledger.parent.mkdir()
    ledger.write_text(content)
    async with world.kubelet, world.serving(serial(), **settings) as daemon:
        await world.listed(OLD, "ttyUSB0")
        assert daemon.log.count("ledger.json is damaged") == 1
    assert ledger.with_name("ledger.json.bad").read_text() == content
    assert json.loads(ledger.read_text())["version"] == 1


async def test_the_ledger_is_written_before_the_kubelet_has_the_list(
    world: World, settings: dict[str, Any]
) -> None:
    async with world.kubelet, world.serving(serial(), **settings):
        await world.listed(OLD, "ttyUSB0")
        ledger = json.loads((world.folder / "state" / "ledger.json").read_text())
        assert [(one["resource"], one["id"]) for one in ledger["devices"]] == [(OLD, "ttyUSB0")]
