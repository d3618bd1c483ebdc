"""The life of a plugin, against the stand-in in both generations."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from tests.simulator.bare_plugin import BarePlugin
from tests.world import FAST, World, resource, serial

SERIAL = "example.com/serial"
PATIENT = replace(FAST, first_retry=60.0, last_retry=60.0)
"""Waits so long between attempts that only an event can have ended the wait."""


async def test_devices_are_listed_and_allocated(world: World) -> None:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    async with world.kubelet, world.serving(serial()):
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        given = await world.container(serial=2)
    assert {one.container_path: one.host_path for one in given.devices} == {
        "/dev/serial0": "/dev/ttyUSB0",
        "/dev/serial1": "/dev/ttyUSB1",
    }
    assert given.env == {"SERIAL": "ttyUSB0,ttyUSB1"}


async def test_a_change_after_a_restart_reaches_the_current_stream(world: World) -> None:
    """K1: the first change after a restart is not swallowed by the old stream."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()):
        await world.listed(SERIAL, "ttyUSB0")
        for minor in range(1, 6):
            await world.kubelet.restart()
            await world.listed(SERIAL, *(f"ttyUSB{i}" for i in range(minor)))
            world.host.plug(f"ttyUSB{minor}")
            await world.listed(SERIAL, *(f"ttyUSB{i}" for i in range(minor + 1)))
            assert world.kubelet.streams(SERIAL) == 1


@pytest.mark.parametrize("how", ["restart", "crash"])
async def test_a_new_kubelet_gets_the_list_at_once(world: World, how: str) -> None:
    """K2: no wait goes on when a new kubelet.sock is there, and pods that start then are served."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial(), timing=PATIENT) as daemon:
        await daemon.registered(SERIAL)
        await (world.kubelet.stop() if how == "restart" else world.kubelet.crash())
        await daemon.log.says("registering again in")
        await world.kubelet.start()
        await world.listed(SERIAL, "ttyUSB0")
        assert (await world.container(serial=1)).env == {"SERIAL": "ttyUSB0"}


async def test_a_broken_stream_is_answered_by_a_new_socket(world: World) -> None:
    """K3: the stream breaks while the kubelet lives: register again, with another socket."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()):
        await world.listed(SERIAL, "ttyUSB0")
        before = world.kubelet.paths(SERIAL)
        world.kubelet.break_streams(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] == 2)
        await world.listed(SERIAL, "ttyUSB0")
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1)
        assert set(world.kubelet.paths(SERIAL)).isdisjoint(before)


async def test_events_that_change_nothing_do_not_restart(world: World) -> None:
    """K5: an event of the socket that we registered with, and the checkpoint's noise."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as daemon:
        await world.listed(SERIAL, "ttyUSB0")
        await daemon.registered(SERIAL)
        for number in range(20):
            noise = world.kubelet.folder / f".{number}"
            noise.write_text("x")
            noise.rename(world.kubelet.folder / "noise")
        world.host.plug("ttyUSB1")  # one more list: whatever the noise led to is over by then
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        assert world.kubelet.observed.registrations[SERIAL] == 1


async def test_a_resource_that_is_refused_does_not_touch_the_others(world: World) -> None:
    """K6: one resource fails to register, for good: the others are served, and it is retried."""
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    fast = replace(FAST, permanent_retry=0.05)
    modem = resource("example.com/modem", "/dev/ttyACM*")
    async with world.kubelet, world.serving(serial(), timing=fast) as daemon:
        await daemon.registered(SERIAL)
        world.kubelet.faults.refuse_register = 'the ResourceName "example.com/x" is invalid'
        await daemon.takes(modem, serial())
        tried = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: tried["example.com/modem"] > 2)
        world.host.plug("ttyUSB1")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        assert tried[SERIAL] == 1
        world.kubelet.faults.refuse_register = None
        await world.listed("example.com/modem", "ttyACM0")


async def test_a_kubelet_that_comes_late_is_waited_for(world: World) -> None:
    """K7: absent at start: no exit, no loop; registered as soon as it is there."""
    world.host.plug("ttyUSB0")
    async with world.serving(serial(), timing=PATIENT) as daemon:
        await daemon.log.says("waiting for a kubelet")
        world.host.plug("ttyUSB1")  # one more pass: whatever would have been tried is over by then
        await daemon.offers(SERIAL, ttyUSB0="", ttyUSB1="")
        assert daemon.log.count("registering again") == 0
        assert list(world.kubelet.folder.iterdir()) == []
        async with world.kubelet:
            await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")


async def test_a_long_resource_name_has_a_short_socket(world: World) -> None:
    """K8: names of 40 characters and more; the longest that a kubelet takes."""
    name = f"{'d' * 60}.{'e' * 60}.{'f' * 60}.{'g' * 61}/{'n' * 63}"
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(resource(name, "/dev/ttyUSB*")):
        await world.listed(name, "ttyUSB0")


async def test_the_end_of_an_old_instance_does_not_take_the_devices_along(world: World) -> None:
    """K10: a rolling update: the end of the old instance cuts off the new one, which comes back.

    Its socket that goes tells of it, and the end of our stream (the next test).
    """
    world.host.plug("ttyUSB0")
    async with world.kubelet, AsyncExitStack() as old, AsyncExitStack() as new:
        await old.enter_async_context(world.serving(serial()))
        await world.listed(SERIAL, "ttyUSB0")
        newer = await new.enter_async_context(world.serving(serial()))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] == 2)
        await newer.registered(SERIAL)
        await old.aclose()
        world.host.plug("ttyUSB1")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1)


async def test_the_end_of_another_plugin_does_not_take_the_devices_along(world: World) -> None:
    """K10: up to 1.36 a kubelet drops us when an older plugin of the same resource ends."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, AsyncExitStack() as new:
        old = BarePlugin(world.kubelet.folder, resource=SERIAL)
        await old.start()
        new.push_async_callback(old.stop)
        old.show("old")
        await old.register()
        await world.listed(SERIAL, "old")
        newer = await new.enter_async_context(world.serving(serial()))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] == 2)
        await newer.registered(SERIAL)
        await world.listed(SERIAL, "ttyUSB0")
        await old.stop()
        world.host.plug("ttyUSB1")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")


async def test_many_resources_register_at_once_and_each_once(world: World) -> None:
    """REG-2: the kubelet calls back within each Register."""
    world.host.plug("ttyUSB0")
    names = [f"example.com/r{i}" for i in range(20)]
    resources = [resource(name, f"/dev/ttyUSB{i}") for i, name in enumerate(names)]
    for i in range(20):
        world.host.plug(f"ttyUSB{i}")
    async with world.kubelet, world.serving(*resources):
        for i, name in enumerate(names):
            await world.listed(name, f"ttyUSB{i}")
        assert set(world.kubelet.observed.registrations.values()) == {1}


async def test_our_socket_may_vanish_while_the_stream_lives(world: World) -> None:
    """KST-9: nothing happens to a connection that is open; the next kubelet gets a new socket."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()):
        await world.listed(SERIAL, "ttyUSB0")
        for path in world.kubelet.folder.glob("genericdp-*.sock"):
            path.unlink()
        world.host.plug("ttyUSB1")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        assert world.kubelet.observed.registrations[SERIAL] == 1
        await world.kubelet.restart()
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")


async def test_a_folder_that_is_deleted_and_made_again_is_followed(world: World) -> None:
    """KST-1: with its kubelet gone, somebody clears the folder away; a later kubelet makes it."""
    world.host.plug("ttyUSB0")
    async with world.serving(serial(), timing=PATIENT):
        for _ in range(2):
            async with world.kubelet:
                await world.listed(SERIAL, "ttyUSB0")
            while world.kubelet.folder.exists():  # we may be unlinking our own socket there
                shutil.rmtree(world.kubelet.folder, ignore_errors=True)
            world.kubelet.folder.mkdir()
