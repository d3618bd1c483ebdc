"""What pods hold stays listed, against the stand-in in both generations (PRS-1, LAW-10)."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.kubelet.podresources import PodResourcesTiming
from genericdp.simulator.pods import Container, Pod
from genericdp.simulator.settings import Generation
from tests.world import World, serial

if TYPE_CHECKING:
    from pathlib import Path

SERIAL = "example.com/serial"
FLEETING = serial(forgetAfterSeconds=0)
CONTAINER = Container(name="main", limits={SERIAL: 1})
POD = Pod(uid="pod", containers=(CONTAINER,))
FAILING = "the kubelet does not say which devices pods hold: "
PROMPT = PodResourcesTiming(period=0.05, pods_known=0.0)
AGAIN = "the kubelet says again which devices pods hold"


@pytest.fixture(params=list(Generation), ids=lambda generation: f"generation-{generation}")
def world(request: pytest.FixtureRequest, short_folder: Path) -> World:
    return World(short_folder, generation=request.param, pod_resources=pods(short_folder))


@pytest.fixture
def socket(short_folder: Path) -> Path:
    return pods(short_folder)


def pods(folder: Path) -> Path:
    return folder / "p" / "kubelet.sock"


async def held(world: World) -> None:
    """Have a pod hold ttyUSB0, then pull it out."""
    world.host.plug("ttyUSB0")
    await world.listed(SERIAL, "ttyUSB0")
    assert (await world.kubelet.admit(POD)).admitted
    world.host.plug("ttyUSB1")
    await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
    for name in ("ttyUSB0", "ttyUSB1"):
        world.host.unplug(name)


async def devices_are(world: World, devices: dict[str, str]) -> None:
    await world.kubelet.wait_for(lambda: world.kubelet.devices(SERIAL) == devices, 30)


async def asked(world: World, times: int) -> None:
    """Wait until the kubelet has been asked so many times more."""
    until_now = world.kubelet.observed.pod_resources_calls
    await world.kubelet.wait_for(
        lambda: world.kubelet.observed.pod_resources_calls >= until_now + times, 30
    )


async def test_what_a_pod_holds_stays_until_it_ends(world: World, socket: Path) -> None:
    """LAW-10: the device that nobody holds is forgotten in time, the other one is not."""
    async with (
        world.kubelet,
        world.serving(FLEETING, pod_resources=socket, pod_resources_timing=PROMPT),
    ):
        await held(world)
        await devices_are(world, {"ttyUSB0": "Unhealthy"})
        lists = world.kubelet.observed.lists[SERIAL]
        await asked(world, 5)
        assert world.kubelet.observed.lists[SERIAL] == lists, "to ask is no news for the kubelet"
        world.kubelet.admitter.remove(POD)
        await devices_are(world, {})


async def test_a_held_device_that_returns_is_healthy_again(world: World, socket: Path) -> None:
    async with (
        world.kubelet,
        world.serving(FLEETING, pod_resources=socket, pod_resources_timing=PROMPT),
    ):
        await held(world)
        await devices_are(world, {"ttyUSB0": "Unhealthy"})
        world.host.plug("ttyUSB0")
        await devices_are(world, {"ttyUSB0": "Healthy"})


async def test_the_kubelet_is_asked_rarely_while_no_answer_would_change_anything(
    world: World, socket: Path
) -> None:
    """PRS-1: all clients share the kubelet's rate limit. It is for status only."""
    rarely = replace(PROMPT, refresh=0.5)
    async with (
        world.kubelet,
        world.serving(serial(), pod_resources=socket, pod_resources_timing=rarely),
    ):
        await held(world)
        await devices_are(world, {"ttyUSB0": "Unhealthy", "ttyUSB1": "Unhealthy"})
        await asked(world, 1)
        begun = time.monotonic()
        await asked(world, 2)
        assert time.monotonic() - begun > 0.7, "twice its refresh, were it not for the way there"


async def test_an_answer_that_changes_nothing_is_no_news_for_the_kubelet(
    world: World, socket: Path
) -> None:
    calm = PodResourcesTiming(period=3600.0, refresh=0.05, pods_known=0.0)
    async with (
        world.kubelet,
        world.serving(serial(), pod_resources=socket, pod_resources_timing=calm),
    ):
        await held(world)
        await devices_are(world, {"ttyUSB0": "Unhealthy", "ttyUSB1": "Unhealthy"})
        lists = world.kubelet.observed.lists[SERIAL]
        await asked(world, 5)
        assert world.kubelet.observed.lists[SERIAL] == lists


@pytest.mark.parametrize("trouble", ["refused", "no socket", "garbage"])
async def test_what_cannot_be_asked_is_not_forgotten(
    world: World, socket: Path, trouble: str
) -> None:
    """PRS-1: one line with the reason, however often it fails, and one when it works again."""
    reasons = {
        "refused": "RESOURCE_EXHAUSTED: rejected by rate limit",
        "no socket": f"there is no {socket}",
        "garbage": f"{socket} is a file, not a socket",
    }
    hidden = socket.with_name("hidden")
    async with (
        world.kubelet,
        world.serving(FLEETING, pod_resources=socket, pod_resources_timing=PROMPT) as daemon,
    ):
        if trouble == "refused":
            world.kubelet.faults.refuse_pod_resources = True
        else:
            socket.rename(hidden)
        if trouble == "garbage":
            socket.write_text("garbage")
        await held(world)
        await devices_are(world, {"ttyUSB0": "Unhealthy", "ttyUSB1": "Unhealthy"})
        if trouble == "refused":
            await asked(world, 5)
        assert reasons[trouble] in await daemon.log.says(FAILING)
        if trouble == "refused":
            world.kubelet.faults.refuse_pod_resources = False
        else:
            hidden.rename(socket)
        await devices_are(world, {"ttyUSB0": "Unhealthy"})
        await daemon.log.says(AGAIN)
        assert (daemon.log.count(FAILING), daemon.log.count(AGAIN)) == (1, 1)


async def test_a_kubelet_that_does_not_know_its_pods_yet_is_not_believed(
    world: World, socket: Path
) -> None:
    """KST-6, PRS-1: a kubelet that has just started names no pods, and all would be forgotten."""
    patient = replace(PROMPT, pods_known=3600.0)
    async with (
        world.kubelet,
        world.serving(FLEETING, pod_resources=socket, pod_resources_timing=patient) as daemon,
    ):
        await held(world)
        await devices_are(world, {"ttyUSB0": "Unhealthy", "ttyUSB1": "Unhealthy"})
        world.kubelet.admitter.sources_ready = False
        await world.kubelet.restart()
        await devices_are(world, {"ttyUSB0": "Unhealthy", "ttyUSB1": "Unhealthy"})
        world.host.plug("ttyUSB2")  # one more pass
        await daemon.counts(SERIAL, 3)
        assert world.kubelet.observed.pod_resources_calls == 0


async def test_without_the_flag_nobody_is_asked(world: World) -> None:
    async with world.kubelet, world.serving(FLEETING):
        await held(world)
        await devices_are(world, {})
        assert world.kubelet.observed.pod_resources_calls == 0
