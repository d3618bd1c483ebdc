"""Test who holds a device, as ``/status`` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from genericdp.kubelet.podresources import PodResourcesTiming
from genericdp.simulator.pods import Container, Pod

from tests.polling import ask_until
from tests.world import PATIENCE_SECONDS, World, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.world import Daemon

SERIAL = "example.com/serial"
PROMPT = PodResourcesTiming(period=0.05, refresh=0.05, pods_known=0.0)
KNOWN = {"known": True, "reason": ""}


def pod(uid: str, count: int = 1) -> Pod:
    return Pod(uid=uid, containers=(Container(name="main", limits={SERIAL: count}),))


@pytest.fixture
def world(short_directory: Path) -> World:
    world = World(short_directory, pod_resources=short_directory / "p/kubelet.sock")
    world.host.plug("ttyUSB0")
    return world


@pytest.fixture
async def daemon(world: World, short_directory: Path) -> AsyncIterator[Daemon]:
    async with (
        world.kubelet,
        world.serving(
            serial(replicas=3),
            pod_resources=short_directory / "p/kubelet.sock",
            pod_resources_timing=PROMPT,
        ) as daemon,
    ):
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB0::1", "ttyUSB0::2")
        yield daemon


async def are(daemon: Daemon, known: dict[str, Any], *holders: str) -> list[dict[str, str]]:
    """Wait until the holders of the one device are these; return them with their shares."""

    def reached(status: dict[str, Any]) -> bool:
        (device,) = status["resources"][0]["devices"]
        names = sorted(holder["holder"] for holder in device["holders"])
        return (status["holders"], names) == (known, sorted(holders))

    await ask_until(daemon.status, reached, seconds=PATIENCE_SECONDS)
    (device,) = (await daemon.status())["resources"][0]["devices"]
    found: list[dict[str, str]] = device["holders"]
    return found


async def test_the_pods_that_hold_shares_of_a_device_are_its_holders_until_they_end(
    world: World, daemon: Daemon
) -> None:
    await are(daemon, KNOWN)
    listen = pod("listen", 2)
    assert (await world.kubelet.admit(listen)).admitted
    assert (await world.kubelet.admit(pod("talk"))).admitted
    found = await are(daemon, KNOWN, *["pod default/listen"] * 2, "pod default/talk")
    assert {holder["share"] for holder in found} == {"ttyUSB0", "ttyUSB0::1", "ttyUSB0::2"}
    world.kubelet.admitter.remove(listen)
    await are(daemon, KNOWN, "pod default/talk")


async def test_a_failed_call_is_the_reason_and_keeps_the_holders(
    world: World, daemon: Daemon
) -> None:
    assert (await world.kubelet.admit(pod("listen"))).admitted
    await are(daemon, KNOWN, "pod default/listen")
    world.kubelet.faults.refuse_pod_resources = True
    refused = "RESOURCE_EXHAUSTED: rejected by rate limit"
    await are(daemon, {"known": False, "reason": refused}, "pod default/listen")
    world.kubelet.faults.refuse_pod_resources = False
    await are(daemon, KNOWN, "pod default/listen")
