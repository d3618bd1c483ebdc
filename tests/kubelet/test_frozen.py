"""A kubelet that stands still (SIGSTOP), and restarts in quick succession, in both generations."""

from __future__ import annotations

import shutil

import pytest

from tests.polling import poll_until
from tests.world import World, serial

pytestmark = pytest.mark.slow

SERIAL = "example.com/serial"
STORM = 20
CHANGES = 24
MANY, LONG = 1400, "an-adapter-with-an-id-of-more-than-fifty-bytes-$(device.name)"
"""Shares of each device: the lists take 30 MB together, more than gRPC's window ever grows to."""


def own_sockets(world: World) -> list[str]:
    return [path.name for path in world.kubelet.folder.glob("genericdp-*.sock")]


async def test_a_kubelet_frozen_within_register_completes_it_when_it_goes_on(world: World) -> None:
    """REG-2, REG-9c: the server goes on serving; the late registration is ours, with one stream."""
    world.host.plug("ttyUSB0")
    async with world.kubelet:
        world.kubelet.freeze()
        async with world.serving(serial()) as daemon:
            await daemon.counts(SERIAL, 1)
            world.host.plug("ttyUSB1")
            await daemon.counts(SERIAL, 2)
            await poll_until(lambda: own_sockets(world))
            before = own_sockets(world)
            assert not (await daemon.resource(SERIAL))["registered"]
            world.kubelet.thaw()
            await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
            await daemon.registered(SERIAL)
            assert own_sockets(world) == before, "the same server"
            assert world.kubelet.streams(SERIAL) == 1
            assert world.kubelet.observed.registrations[SERIAL] == 1


async def test_a_kubelet_frozen_amid_the_lists_gets_the_latest_when_it_goes_on(
    world: World,
) -> None:
    """LAW-2, KST-9: no second registration, and not every list that it has missed."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial(replicas=MANY, id=LONG)) as daemon:
        await daemon.registered(SERIAL)
        world.kubelet.freeze()
        for number in range(1, CHANGES + 1):
            world.host.plug(f"ttyUSB{number}")
            await daemon.counts(SERIAL, number + 1)
        lists = world.kubelet.observed.lists[SERIAL]
        world.kubelet.thaw()
        await world.kubelet.wait_for(
            lambda: world.kubelet.allocatable(SERIAL) == MANY * (CHANGES + 1), 30
        )
        assert world.kubelet.observed.lists[SERIAL] - lists < CHANGES
        assert world.kubelet.observed.registrations[SERIAL] == 1


@pytest.mark.parametrize("how", ["restart", "crash"])
async def test_a_storm_of_restarts_leaves_one_stream_and_one_socket(world: World, how: str) -> None:
    """KST-3, REG-11: nobody waits for a list between two restarts."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as daemon:
        await daemon.registered(SERIAL)
        for _ in range(STORM):
            if how == "crash":
                await world.kubelet.crash()
                await world.kubelet.start()
            else:
                await world.kubelet.restart()
        await world.listed(SERIAL, "ttyUSB0")
        await daemon.registered(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)
        assert len(own_sockets(world)) == 1
        assert (await world.container(serial=1)).env == {"SERIAL": "ttyUSB0"}
    assert own_sockets(world) == []


async def test_a_kubelet_killed_while_it_is_frozen_is_left_for_the_next_one(world: World) -> None:
    """KST-3: a Register that hangs at a stopped kubelet does not hold up the next kubelet."""
    world.host.plug("ttyUSB0")
    async with world.kubelet:
        world.kubelet.freeze()
        async with world.serving(serial()) as daemon:
            await daemon.counts(SERIAL, 1)
            await world.kubelet.crash()
            world.kubelet.thaw()
            await world.kubelet.start()
            await world.listed(SERIAL, "ttyUSB0")
            await daemon.registered(SERIAL)
            await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)


async def test_the_folder_may_be_deleted_below_a_living_kubelet(world: World) -> None:
    """KST-1, KST-9: the open stream goes on; the next kubelet makes the folder anew."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as daemon:
        await daemon.registered(SERIAL)
        shutil.rmtree(world.kubelet.folder)
        world.host.plug("ttyUSB1")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        assert world.kubelet.observed.registrations[SERIAL] == 1
        await world.kubelet.crash()
        await world.kubelet.start()
        world.host.plug("ttyUSB2")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1", "ttyUSB2")
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)
