"""The life of a plugin, whose kubelet restarts, stands still or goes, in both generations."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace

import pytest

from tests.polling import poll_until
from tests.world import FAST, Daemon, World, resource, serial

pytestmark = pytest.mark.slow

SERIAL = "example.com/serial"
PATIENT = replace(FAST, first_retry=60.0, last_retry=60.0)
"""Waits this long between attempts that only an event can have ended the wait."""
LONGEST = f"{'d' * 60}.{'e' * 60}.{'f' * 60}.{'g' * 61}/{'n' * 63}"
"""What a kubelet takes as a name."""
CHANGES = 24
MANY, LONG = 1400, "an-adapter-with-an-id-of-more-than-fifty-bytes-$(device.name)"
"""Shares of each device: the lists take 30 MB together, more than gRPC's window ever grows to."""


def sockets(world: World) -> list[str]:
    return [path.name for path in world.kubelet.directory.glob("genericdp-*.sock")]


async def serves(world: World, daemon: Daemon, *devices: str) -> None:
    """Wait until the kubelet has these devices, by one stream."""
    await world.listed(SERIAL, *devices)
    await daemon.registered(SERIAL)
    await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)


async def plug(world: World, number: int) -> None:
    """Plug one more device in: what was underway before it is listed is over by then."""
    world.host.plug(f"ttyUSB{number}")
    await world.listed(SERIAL, *(f"ttyUSB{each_number}" for each_number in range(number + 1)))


@pytest.mark.parametrize("how", ["restart", "crash"])
async def test_a_new_kubelet_gets_the_list_at_once(world: World, how: str) -> None:
    """K2: a new kubelet.sock ends each wait, and pods that start then are served."""
    async with world.kubelet, world.serving(serial(), timing=PATIENT) as daemon:
        await daemon.registered(SERIAL)
        await (world.kubelet.stop() if how == "restart" else world.kubelet.crash())
        await daemon.log.says("registering again in")
        await world.kubelet.start()
        await world.listed(SERIAL, "ttyUSB0")
        assert (await world.container(serial=1)).env == {"SERIAL": "ttyUSB0"}


async def test_events_that_change_nothing_do_not_restart(world: World) -> None:
    """K5: an event of the socket that we registered with, and the checkpoint's noise."""
    async with world.kubelet, world.serving(serial()) as daemon:
        await serves(world, daemon, "ttyUSB0")
        for number in range(20):
            noise = world.kubelet.directory / f".{number}"
            noise.write_text("x")
            noise.rename(world.kubelet.directory / "noise")
        await plug(world, 1)
        assert world.kubelet.observed.registrations[SERIAL] == 1


async def test_a_resource_that_is_refused_does_not_touch_the_others(world: World) -> None:
    """K6: one resource fails to register, for good: the others are served, and it is retried."""
    world.host.plug("ttyACM0", major=166)
    rare = replace(FAST, permanent_retry=0.3)
    modem = resource("example.com/modem", "/dev/ttyACM*")
    async with world.kubelet, world.serving(serial(), timing=rare) as daemon:
        await daemon.registered(SERIAL)
        world.kubelet.faults.refuse_register = 'the ResourceName "example.com/x" is invalid'
        await daemon.takes(modem, serial())
        await daemon.log.says("is invalid: registering again in 0.3 s")
        tried = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: tried["example.com/modem"] > 2)
        await plug(world, 1)
        assert tried[SERIAL] == 1
        world.kubelet.faults.refuse_register = None
        await world.listed("example.com/modem", "ttyACM0")


async def test_a_kubelet_that_comes_late_is_waited_for(world: World) -> None:
    """K7: absent at start: no exit, no loop; registered as soon as it is there."""
    async with world.serving(serial(), timing=PATIENT) as daemon:
        await daemon.log.says("waiting for a kubelet")
        world.host.plug("ttyUSB1")  # one more pass: whatever would have been tried is over by then
        await daemon.offers(SERIAL, ttyUSB0="", ttyUSB1="")
        assert daemon.log.count("registering again") == 0
        assert list(world.kubelet.directory.iterdir()) == []
        async with world.kubelet:
            await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")


async def test_many_resources_register_at_once_and_each_once(world: World) -> None:
    """REG-2: the kubelet calls back within each Register. K8: whatever they are called."""
    names = [LONGEST, *(f"example.com/r{number}" for number in range(1, 20))]
    resources = [resource(name, f"/dev/ttyUSB{number}") for number, name in enumerate(names)]
    for number in range(1, 20):
        world.host.plug(f"ttyUSB{number}")
    async with world.kubelet, world.serving(*resources):
        for number, name in enumerate(names):
            await world.listed(name, f"ttyUSB{number}")
        assert set(world.kubelet.observed.registrations.values()) == {1}


async def test_a_directory_that_is_deleted_and_made_again_is_followed(world: World) -> None:
    """KST-1: without a kubelet, the directory is deleted; a later kubelet makes it."""
    async with world.serving(serial(), timing=PATIENT):
        for _ in range(2):
            async with world.kubelet:
                await world.listed(SERIAL, "ttyUSB0")
            while world.kubelet.directory.exists():  # we may be unlinking our own socket there
                shutil.rmtree(world.kubelet.directory, ignore_errors=True)
            world.kubelet.directory.mkdir()


async def test_a_kubelet_frozen_within_register_completes_it_when_it_goes_on(world: World) -> None:
    """REG-2, REG-9c: the server keeps serving; the late registration is ours, with one stream."""
    async with world.kubelet:
        world.kubelet.freeze()
        async with world.serving(serial()) as daemon:
            await daemon.counts(SERIAL, 1)
            world.host.plug("ttyUSB1")
            await daemon.counts(SERIAL, 2)
            await poll_until(lambda: sockets(world))
            before = sockets(world)
            assert not (await daemon.resource(SERIAL))["registered"]
            world.kubelet.thaw()
            await serves(world, daemon, "ttyUSB0", "ttyUSB1")
            assert sockets(world) == before, "the same server"
            assert world.kubelet.observed.registrations[SERIAL] == 1


async def test_a_kubelet_frozen_amid_the_lists_gets_the_latest_when_it_goes_on(
    world: World,
) -> None:
    """LAW-2, KST-9: no second registration, and not every list that it has missed."""
    async with world.kubelet, world.serving(serial(replicas=MANY, id=LONG)) as daemon:
        await daemon.registered(SERIAL)
        world.kubelet.freeze()
        for number in range(1, CHANGES + 1):
            world.host.plug(f"ttyUSB{number}")
            await daemon.counts(SERIAL, number + 1)
        lists, total = world.kubelet.observed.lists[SERIAL], MANY * (CHANGES + 1)
        world.kubelet.thaw()
        await world.kubelet.wait_for(lambda: world.kubelet.allocatable(SERIAL) == total, 30)
        assert world.kubelet.observed.lists[SERIAL] - lists < CHANGES
        assert world.kubelet.observed.registrations[SERIAL] == 1


async def test_kubelets_that_came_and_went_make_no_later_wait_longer(world: World) -> None:
    """K3, found by the soak: a broken stream is answered as soon as before some restarts."""
    patient = replace(FAST, last_retry=60.0)
    async with world.kubelet, world.serving(serial(), timing=patient) as daemon:
        for number in range(1, 13):
            await serves(world, daemon, "ttyUSB0")
            await world.kubelet.stop()
            await daemon.log.says("registering again in", times=number)
            await world.kubelet.start()
        await serves(world, daemon, "ttyUSB0")
        paths = world.kubelet.paths(SERIAL)
        world.kubelet.break_streams(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.paths(SERIAL) not in {(), paths})
        await world.listed(SERIAL, "ttyUSB0")


async def test_kubelets_that_are_away_for_long_are_no_work_of_another_plugin(world: World) -> None:
    """K3, found by the soak: three restarts within seconds said so, and then each cost seconds."""
    async with world.kubelet, world.serving(serial()) as daemon:
        for number in range(1, 5):
            await serves(world, daemon, "ttyUSB0")
            await world.kubelet.stop()
            await daemon.log.says("registering again in", times=number)
            await asyncio.sleep(0.2)  # noqa: TID251 -- more than the pause, of which nothing shows the end
            await world.kubelet.start()
            await world.listed(SERIAL, "ttyUSB0")
        await daemon.registered(SERIAL)
        assert daemon.log.count("another device plugin may serve") == 0
