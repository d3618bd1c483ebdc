"""Others who serve the same resource, against the stand-in in both generations (REG-13)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation
from tests.polling import ask_until
from tests.simulator.bare_plugin import BarePlugin
from tests.world import FAST, World, resource, serial

if TYPE_CHECKING:
    from pathlib import Path

    from tests.world import Daemon

SERIAL = "example.com/serial"


async def both_active(world: World, one: Daemon, other: Daemon) -> None:
    await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 1, 30)
    for daemon in (one, other):
        await daemon.registered(SERIAL)


def is_elsewhere(world: World, paths: tuple[str, ...]) -> bool:
    return world.kubelet.paths(SERIAL) not in {(), paths}


async def uncontested(daemon: Daemon) -> None:
    await daemon.shows(SERIAL, lambda found: not found["contested"])


async def contested(daemon: Daemon) -> str:
    await daemon.shows(SERIAL, lambda found: found["contested"])
    return str((await daemon.resource(SERIAL))["contested"])


async def test_the_end_of_a_later_instance_does_not_take_the_devices_along(world: World) -> None:
    """K10: an update that is rolled back: up to 1.36 nobody tells the older instance (REG-9b).

    Its stream lives on while the kubelet has no endpoint left.
    """
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as older, AsyncExitStack() as later:
        await older.registered(SERIAL)
        newer = await later.enter_async_context(world.serving(serial()))
        await both_active(world, older, newer)
        await contested(older)
        await later.aclose()
        await uncontested(older)
        await world.listed(SERIAL, "ttyUSB0")
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)

        async def env() -> object:
            with suppress(AssertionError):  # as with any plugin that is just registering again
                return (await world.container(serial=1)).env
            return None

        await ask_until(env, lambda given: given == {"SERIAL": "ttyUSB0"})


async def test_what_an_instance_that_has_left_told_last_does_not_stay(world: World) -> None:
    """K10: in an update the older instance changes its list after the newer one has registered.

    The last list counts. From 1.37 on the end of the older one changes nothing, so its devices
    stayed until the next change of ours.
    """
    by_age = replace(FAST, same_age=0.0)
    world.host.plug("ttyUSB0")
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


async def test_a_kubelet_that_restarts_says_nothing_of_other_instances(world: World) -> None:
    """It removes all sockets."""
    async with world.serving(serial()) as older, world.serving(serial()) as newer:
        async with world.kubelet:
            await both_active(world, older, newer)
            await newer.log.says("another instance of genericdp", times=2)
        await newer.log.says("waiting for a kubelet: there is no", times=2)
        again = Kubelet(world.kubelet.folder, generation=world.kubelet.generation)
        async with again:
            await newer.log.says("another instance of genericdp", times=4)
        assert newer.log.count("has gone") == 0


async def test_a_folder_that_is_emptied_says_nothing_of_other_instances(world: World) -> None:
    folder = world.kubelet.folder
    async with world.kubelet, world.serving(serial()) as older, world.serving(serial()) as newer:
        await both_active(world, older, newer)
        await contested(older)
        (folder / "kubelet.sock").unlink()
        await newer.log.says("waiting for a kubelet", times=2)
        for path in folder.glob("genericdp-*"):
            path.unlink()
        await uncontested(older)
        await asyncio.sleep(1)  # nothing is to come
        assert newer.log.count("has gone") == 0


async def test_a_folder_that_is_moved_away_says_nothing_of_other_instances(world: World) -> None:
    """Found by a new user: both were said to have gone."""
    folder = world.kubelet.folder
    away = folder.with_name("away")
    async with world.kubelet, world.serving(serial()) as older, world.serving(serial()) as newer:
        await both_active(world, older, newer)
        await contested(older)
        await newer.log.says("another instance of genericdp", times=2)
        folder.rename(away)
        await newer.log.says("waiting for a kubelet", times=2)
        await asyncio.sleep(1)  # nothing is to come
        away.rename(folder)
        assert newer.log.count("has gone") == 0


async def test_an_instance_that_leaves_amid_a_registration_costs_no_long_wait(
    world: World,
) -> None:
    """K10, REG-9b: an old instance ends between the kubelet's answer and the stream.

    Up to 1.36 the kubelet closes the new connection, and no stream ever comes.
    """
    world.host.plug("ttyUSB0")
    timing = replace(FAST, stream=60.0)
    faults = world.kubelet.faults
    async with world.kubelet, AsyncExitStack() as old, AsyncExitStack() as new:
        older = await old.enter_async_context(world.serving(serial()))
        await older.registered(SERIAL)
        faults.stream_delay_seconds = 3600.0
        newer = await new.enter_async_context(world.serving(serial(), timing=timing))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.accepted[SERIAL] == 2, 30)
        await contested(newer)
        await old.aclose()
        faults.stream_delay_seconds = 0.0
        await newer.registered(SERIAL)
        await world.listed(SERIAL, "ttyUSB0")
        assert (await world.container(serial=1)).env == {"SERIAL": "ttyUSB0"}


async def test_a_stream_that_only_comes_late_when_an_instance_leaves_is_taken(
    short_folder: Path,
) -> None:
    """K10, REG-10: from 1.37 on the new connection lives on: nobody registers again."""
    world = World(short_folder, generation=Generation.B)
    world.host.plug("ttyUSB0")
    timing = replace(FAST, stream=60.0, peer_return=60.0)
    async with world.kubelet, AsyncExitStack() as old, AsyncExitStack() as new:
        older = await old.enter_async_context(world.serving(serial()))
        await older.registered(SERIAL)
        world.kubelet.faults.stream_delay_seconds = 0.5
        newer = await new.enter_async_context(world.serving(serial(), timing=timing))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.accepted[SERIAL] == 2, 30)
        await old.aclose()
        await newer.registered(SERIAL)
        await uncontested(newer)
        await world.listed(SERIAL, "ttyUSB0")
        assert world.kubelet.observed.registrations[SERIAL] == 2


async def test_two_instances_say_so_once_and_when_it_is_over(world: World) -> None:
    """REG-13: a second DaemonSet, or a rolling update: state and log name the resource."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as one, AsyncExitStack() as other:
        second = await other.enter_async_context(world.serving(serial()))
        await both_active(world, one, second)
        for daemon in (one, second):
            text = await contested(daemon)
            assert text.startswith("another instance of genericdp serves it on this node, too")
        await one.log.says("serves on this node, too", times=2)
        await other.aclose()
        await uncontested(one)
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)
        await one.log.says(") has gone", times=1)
    said = [line for line in one.log.lines if "serves on this node, too" in line]
    assert len(said) == 2, "each instance says it once"
    assert all(f": {SERIAL}; all is well if that is a rolling update" in line for line in said)


async def test_two_instances_do_not_throw_each_other_out_for_ever(world: World) -> None:
    """REG-9b, REG-13: once both have streams, nobody registers again."""
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as one, world.serving(serial()) as other:
        await both_active(world, one, other)
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 2, 30)
        world.kubelet.break_streams(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 3, 30)
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 2, 30)
        registered = world.kubelet.observed.registrations[SERIAL]
        for number in (1, 2, 3):
            world.host.plug(f"ttyUSB{number}")
            await world.listed(SERIAL, *(f"ttyUSB{i}" for i in range(number + 1)))
        assert world.kubelet.observed.registrations[SERIAL] == registered


async def test_an_unknown_plugin_that_throws_us_out_is_suspected(
    world: World,
) -> None:
    """REG-9b: said once, with what to do; and once more when it is over."""
    world.host.plug("ttyUSB0")
    timing = replace(FAST, stable=1.0, conflict_retry=0.05)
    stranger = BarePlugin(world.kubelet.folder, name="squat.sock")
    async with world.kubelet, world.serving(serial(), timing=timing) as daemon:
        await stranger.start()
        await daemon.registered(SERIAL)
        while not (await daemon.resource(SERIAL))["contested"]:
            await daemon.registered(SERIAL)
            paths = world.kubelet.paths(SERIAL)
            world.kubelet.break_streams(SERIAL)
            await world.kubelet.wait_for(partial(is_elsewhere, world, paths), 30)
        assert f"may serve {SERIAL} on this node" in await contested(daemon)
        await stranger.stop()
        await uncontested(daemon)
        await world.listed(SERIAL, "ttyUSB0")
    assert daemon.log.count("let only one of them serve it") == 1
    assert daemon.log.count("nobody else seems to serve the resource any more") == 1
