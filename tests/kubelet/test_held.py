"""Devices that pods hold (PRS-1) stay listed under their names (LAW-10)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from genericdp.kubelet.podresources import PodResourcesTiming
from genericdp.simulator.pods import Container, Pod

from tests.polling import ask_until
from tests.world import Daemon, World, serial

SERIAL = "example.com/serial"
POD = Pod(uid="pod", containers=(Container(name="main", limits={SERIAL: 1}),))
PROMPT = PodResourcesTiming(period=0.05, refresh=0.2, pods_known=0.0)
FLEETING = serial(forgetAfterSeconds=0)
RENAMED = serial(id="new-$(device.name)")
FAILING = "the kubelet does not say which devices pods hold: "
AGAIN = "the kubelet says again which devices pods hold"


class HeldWorld(World):
    """A world whose kubelet says what pods hold, and whose daemon asks."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "p" / "kubelet.sock"
        super().__init__(directory, pod_resources=self.socket)
        self.host.plug("ttyUSB0")

    def asking(
        self, resource: Mapping[str, object], timing: PodResourcesTiming = PROMPT
    ) -> AbstractAsyncContextManager[Daemon]:
        """Run a daemon that keeps a ledger and asks the kubelet."""
        settings: dict[str, Any] = {"pod_resources": self.socket, "pod_resources_timing": timing}
        return self.serving(resource, state_dir=self.directory / "state", **settings)

    async def holds(self) -> None:
        """Have a pod hold ttyUSB0, then pull it out, and another device, too."""
        await self.container(serial=1)
        self.host.plug("ttyUSB1")
        await self.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        for name in ("ttyUSB0", "ttyUSB1"):
            self.host.unplug(name)
        await self.are_unhealthy("ttyUSB0", "ttyUSB1")

    async def are_unhealthy(self, *devices: str) -> None:
        wanted = dict.fromkeys(devices, "Unhealthy")
        await self.kubelet.wait_for(lambda: self.kubelet.devices(SERIAL) == wanted, 30)


@pytest.fixture
async def world(short_directory: Path) -> AsyncIterator[HeldWorld]:
    world = HeldWorld(short_directory)
    async with world.kubelet:
        yield world


async def test_a_share_that_an_edit_adds_to_a_held_device_is_refused(world: HeldWorld) -> None:
    """The pod got all of the device. A kubelet that has not read the list yet may still ask."""
    async with world.asking(serial()) as daemon:
        await world.container(serial=1)
        await daemon.takes(serial(replicas=2))
        await world.kubelet.wait_for(
            lambda: world.kubelet.devices(SERIAL).get("ttyUSB0::1") == "Unhealthy"
        )
        with pytest.raises(grpc.aio.AioRpcError, match=r"ttyUSB0::1 is Unhealthy: .* holds it"):
            await world.allocated(SERIAL, ["ttyUSB0::1"])
        world.kubelet.admitter.remove(POD)
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB0::1")
        await world.allocated(SERIAL, ["ttyUSB0::1"])


async def test_the_log_and_the_status_say_who_got_a_device_and_when(world: HeldWorld) -> None:
    about = f"info {SERIAL}: "
    async with world.asking(serial(replicas=2)) as daemon:
        await world.container(serial=1)
        await daemon.log.says(f"{about}a container gets ttyUSB0")
        await daemon.log.says(f"{about}pod default/{POD.uid} has ttyUSB0")
        status = await daemon.status()
        (found,) = status["resources"]
        (holder,) = found["devices"][0]["holders"]
        assert status["started"] <= holder["since"] <= status["time"]
        assert found["allocated"] == 1
        metrics = await daemon.metrics()
        assert metrics[f"devices_allocated{{{SERIAL}}}"] == 1
    async with world.asking(serial(replicas=2)) as daemon:  # it was not there at the time
        await ask_until(daemon.status, lambda status: status["resources"][0]["allocated"] == 1)
        (holder,) = (await daemon.status())["resources"][0]["devices"][0]["holders"]
        assert holder["since"] is None
        world.kubelet.admitter.remove(POD)
        await ask_until(daemon.status, lambda status: status["resources"][0]["allocated"] == 0)


@pytest.mark.parametrize("trouble", ["refused", "no socket", "garbage"])
async def test_what_cannot_be_asked_is_not_forgotten(world: HeldWorld, trouble: str) -> None:
    """PRS-1: one line with the reason, however often it fails, and one when it works again."""
    reasons = {
        "refused": "RESOURCE_EXHAUSTED: rejected by rate limit",
        "no socket": f"there is no {world.socket}",
        "garbage": f"{world.socket} is a file, not a socket",
    }
    hidden, observed = world.socket.with_name("hidden"), world.kubelet.observed
    async with world.asking(FLEETING) as daemon:
        world.kubelet.faults.refuse_pod_resources = trouble == "refused"
        if trouble != "refused":
            world.socket.rename(hidden)
        if trouble == "garbage":
            world.socket.write_text("garbage")
        await world.holds()
        if trouble == "refused":
            wanted = observed.pod_resources_calls + 5
            await world.kubelet.wait_for(lambda: observed.pod_resources_calls >= wanted, 30)
        assert reasons[trouble] in await daemon.log.says(FAILING)
        world.kubelet.faults.refuse_pod_resources = False
        if trouble != "refused":
            hidden.rename(world.socket)
        await world.are_unhealthy("ttyUSB0")
        await daemon.log.says(AGAIN)
        assert (daemon.log.count(FAILING), daemon.log.count(AGAIN)) == (1, 1)


async def test_a_kubelet_that_does_not_know_its_pods_yet_is_not_believed(world: HeldWorld) -> None:
    """KST-6, PRS-1: a kubelet that has just started names no pods, and all would be forgotten."""
    async with world.asking(FLEETING, replace(PROMPT, pods_known=3600.0)) as daemon:
        await world.holds()
        world.kubelet.admitter.sources_ready = False
        await world.kubelet.restart()
        await world.are_unhealthy("ttyUSB0", "ttyUSB1")
        world.host.plug("ttyUSB2")  # one more pass
        await daemon.counts(SERIAL, 3)
        assert world.kubelet.observed.pod_resources_calls == 0


async def test_without_an_answer_of_the_kubelet_a_held_id_stays_as_it_is(world: HeldWorld) -> None:
    """The status says why no one knows, and who had it last."""
    async with world.asking(serial()) as daemon:
        await world.container(serial=1)
        await daemon.shows(SERIAL, lambda found: found["devices"][0]["holders"])
        world.kubelet.faults.refuse_pod_resources = True
        await daemon.takes(RENAMED)
        await daemon.log.says(FAILING)
        world.host.plug("ttyUSB1")
        await world.listed(SERIAL, "ttyUSB0", "new-ttyUSB1")
        status = await daemon.status()
        why = "RESOURCE_EXHAUSTED: rejected by rate limit"
        assert status["holders"] == {"known": False, "reason": why}
        holders = {device["id"]: device["holders"] for device in status["resources"][0]["devices"]}
        ((held,),) = [found for device, found in holders.items() if device == "ttyUSB0"]
        assert (held["share"], held["holder"]) == ("ttyUSB0", "pod default/pod")
        world.kubelet.faults.refuse_pod_resources = False
        await ask_until(daemon.status, lambda status: status["holders"]["known"])


async def test_without_pod_resources_nobody_is_asked_and_an_edit_renames_at_once(
    world: HeldWorld,
) -> None:
    async with world.serving(FLEETING, state_dir=world.directory / "state") as daemon:
        await world.container(serial=1)
        world.host.plug("ttyUSB1")
        await daemon.takes(RENAMED)
        await world.listed(SERIAL, "new-ttyUSB0", "new-ttyUSB1")
        world.host.unplug("ttyUSB0")
        await world.listed(SERIAL, "new-ttyUSB1")
        assert world.kubelet.observed.pod_resources_calls == 0
    async with world.serving(serial(), state_dir=world.directory / "state") as daemon:
        await world.listed(SERIAL, "ttyUSB1")
        both = f"device ttyUSB1 of {SERIAL} was new-ttyUSB1 of {SERIAL} before: pods may hold it"
        assert daemon.log.count(both) == 1
