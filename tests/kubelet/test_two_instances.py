"""Others who serve the same resource, against the simulated kubelet in both generations."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial

import pytest
from genericdp.simulator.settings import Generation

from tests.polling import ask_until
from tests.simulator.bare_plugin import BarePlugin
from tests.world import FAST, Daemon, World, resource, serial

pytestmark = pytest.mark.parametrize("generation", Generation)

SERIAL = "example.com/serial"


async def both_active(world: World, *daemons: Daemon) -> None:
    await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 1, 30)
    for daemon in daemons:
        await daemon.registered(SERIAL)


async def streams(world: World, count: int) -> None:
    await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == count, 30)


async def uncontested(daemon: Daemon) -> None:
    await daemon.shows(SERIAL, lambda found: not found["contested"])


async def contested(daemon: Daemon) -> str:
    await daemon.shows(SERIAL, lambda found: found["contested"])
    return str((await daemon.resource(SERIAL))["contested"])


@pytest.mark.parametrize("leaver", ["older instance", "older plugin", "later instance"])
async def test_the_end_of_another_does_not_take_the_devices_along(
    world: World, leaver: str
) -> None:
    """K10: a rolling update, and one that is rolled back.

    Up to 1.36 a kubelet drops us when an older plugin of the same resource ends, and no one shows
    an older instance when a later one ends: its stream lives on without an endpoint (REG-9b).
    """
    plugin = BarePlugin(world.kubelet.directory, resource=SERIAL)
    async with world.kubelet, AsyncExitStack() as other, AsyncExitStack() as ours:
        if leaver == "older plugin":
            await plugin.start()
            other.push_async_callback(plugin.stop)
            plugin.show("old")
            await plugin.register()
            await world.listed(SERIAL, "old")
        elif leaver == "older instance":
            older = await other.enter_async_context(world.serving(serial()))
            await older.registered(SERIAL)
        daemon = await ours.enter_async_context(world.serving(serial()))
        if leaver == "later instance":
            await daemon.registered(SERIAL)
            await other.enter_async_context(world.serving(serial()))
        await both_active(world, daemon)
        if leaver != "older plugin":
            assert "another instance of genericdp serves it on this node" in await contested(daemon)
        await other.aclose()
        await uncontested(daemon)
        world.host.plug("ttyUSB1")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        await streams(world, 1)

        async def env() -> object:
            with suppress(AssertionError):  # as with any plugin that is just registering again
                return (await world.container(serial=2)).env
            return None

        await ask_until(env, lambda given: given == {"SERIAL": "ttyUSB0,ttyUSB1"})


async def test_what_an_instance_that_has_left_told_last_does_not_stay(world: World) -> None:
    """K10: in an update the older instance changes its list after the newer one has registered.

    The last list counts. From 1.37 on the end of the older one changes nothing, so its devices
    stayed until the next change of ours.
    """
    by_age = replace(FAST, same_age=0.0)
    async with world.kubelet, AsyncExitStack() as older:
        old = await older.enter_async_context(world.serving(resource(SERIAL, "/dev/ttyACM*")))
        await old.registered(SERIAL)
        async with world.serving(serial(), timing=by_age) as newer:
            await both_active(world, old, newer)
            await contested(newer)
            world.host.plug("ttyACM1")
            await world.listed(SERIAL, "ttyACM1")
            await older.aclose()
            await world.listed(SERIAL, "ttyUSB0")


@pytest.mark.parametrize("delay", [0.5, 3600.0], ids=["late", "never"])
async def test_an_instance_that_leaves_amid_a_registration_costs_no_long_wait(
    world: World, delay: float
) -> None:
    """K10, REG-9b: an old instance ends between the kubelet's answer and the stream.

    Up to 1.36 the kubelet closes the new connection, and no stream ever comes. From 1.37 on it
    lives on: where the stream is only late, no one registers again (REG-10).
    """
    comes = delay < 1 and world.kubelet.generation is Generation.B
    timing = replace(FAST, stream=60.0, peer_return=60.0 if comes else FAST.peer_return)
    faults = world.kubelet.faults
    async with world.kubelet, AsyncExitStack() as old, AsyncExitStack() as new:
        older = await old.enter_async_context(world.serving(serial()))
        await older.registered(SERIAL)
        faults.stream_delay_seconds = delay
        newer = await new.enter_async_context(world.serving(serial(), timing=timing))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.accepted[SERIAL] == 2, 30)
        if delay > 1:
            await contested(newer)
        await old.aclose()
        if delay > 1:
            faults.stream_delay_seconds = 0.0
        await newer.registered(SERIAL)
        await uncontested(newer)
        await world.listed(SERIAL, "ttyUSB0")
        assert (await world.container(serial=1)).env == {"SERIAL": "ttyUSB0"}
        if comes:
            assert world.kubelet.observed.registrations[SERIAL] == 2


async def test_two_instances_do_not_throw_each_other_out_for_ever(world: World) -> None:
    """REG-9b, REG-13: once both have streams, no one registers again."""
    async with world.kubelet, world.serving(serial()) as server, world.serving(serial()) as other:
        await both_active(world, server, other)
        await streams(world, 2)
        world.kubelet.break_streams(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 3, 30)
        await streams(world, 2)
        registered = world.kubelet.observed.registrations[SERIAL]
        for number in (1, 2, 3):
            world.host.plug(f"ttyUSB{number}")
            await world.listed(SERIAL, *(f"ttyUSB{i}" for i in range(number + 1)))
        assert world.kubelet.observed.registrations[SERIAL] == registered


async def test_an_unknown_plugin_that_throws_us_out_is_suspected(world: World) -> None:
    """REG-9b: said once, with what to do; and once more when it is over."""

    def is_elsewhere(paths: tuple[str, ...]) -> bool:
        return world.kubelet.paths(SERIAL) not in {(), paths}

    timing = replace(FAST, stable=1.0, conflict_retry=0.05)
    stranger = BarePlugin(world.kubelet.directory, name="squat.sock")
    async with world.kubelet, world.serving(serial(), timing=timing) as daemon:
        await stranger.start()
        await daemon.registered(SERIAL)
        while not (await daemon.resource(SERIAL))["contested"]:
            await daemon.registered(SERIAL)
            paths = world.kubelet.paths(SERIAL)
            world.kubelet.break_streams(SERIAL)
            await world.kubelet.wait_for(partial(is_elsewhere, paths), 30)
        assert f"may serve {SERIAL} on this node" in await contested(daemon)
        await stranger.stop()
        await uncontested(daemon)
        await world.listed(SERIAL, "ttyUSB0")
    assert daemon.log.count("let only one of them serve it") == 1
    assert daemon.log.count("no other plugin serves this resource") == 1
