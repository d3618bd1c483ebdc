"""Others who serve the same resource, against the stand-in in both generations (REG-13)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.contest import Contest, listed
from genericdp.observed import until
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation
from tests.simulator.bare_plugin import BarePlugin
from tests.supervising import FAST, World, resource, serial

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.plugin import Plugin
    from genericdp.supervisor import Supervisor

SERIAL = "example.com/serial"


@pytest.fixture(params=list(Generation), ids=lambda generation: f"generation-{generation}")
def world(request: pytest.FixtureRequest, short_folder: Path) -> World:
    folder = short_folder / "k"
    folder.mkdir()
    return World(short_folder, Kubelet(folder, generation=request.param))


async def both_active(world: World, one: Supervisor, other: Supervisor) -> None:
    await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 1, 30)
    for supervisor in (one, other):
        await world.active(supervisor, SERIAL)


async def uncontested(plugin: Plugin) -> bool:
    contested = plugin.contested
    return await until(lambda: not contested.value, contested, timeout_seconds=30)


async def contested(plugin: Plugin) -> str:
    contested = plugin.contested
    assert await until(lambda: bool(contested.value), contested, timeout_seconds=30)
    return contested.value


async def logged(caplog: pytest.LogCaptureFixture, text: str, *, times: int) -> None:
    async with asyncio.timeout(30):
        while caplog.text.count(text) < times:
            await asyncio.sleep(0.01)


async def test_the_end_of_a_later_instance_does_not_take_the_devices_along(world: World) -> None:
    """K10: an update that is rolled back: up to 1.36 nobody tells the older instance (REG-9b).

    Its stream lives on while the kubelet has no endpoint left.
    """
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as older, AsyncExitStack() as later:
        await world.active(older, SERIAL)
        newer = await later.enter_async_context(world.serving(serial()))
        await both_active(world, older, newer)
        await contested(older.plugins[SERIAL])
        await later.aclose()
        await uncontested(older.plugins[SERIAL])
        await world.listed(SERIAL, "ttyUSB0")
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)
        given = await world.container(serial=1)
        assert given.env == {"SERIAL": "ttyUSB0"}


async def test_what_an_instance_that_has_left_told_last_does_not_stay(world: World) -> None:
    """K10: in an update the older instance changes its list after the newer one has registered.

    The last list counts. From 1.37 on the end of the older one changes nothing, so its devices
    stayed until the next change of ours.
    """
    by_age = replace(FAST, same_age=0.0)
    world.host.plug("ttyUSB0")
    async with world.kubelet, AsyncExitStack() as older:
        old = await older.enter_async_context(world.serving(resource(SERIAL, "/dev/ttyACM*")))
        await world.active(old, SERIAL)
        async with world.serving(serial(), timing=by_age) as newer:
            await both_active(world, old, newer)
            await contested(newer.plugins[SERIAL])
            world.host.plug("ttyACM1")
            await world.listed(SERIAL, "ttyACM1")
            await older.aclose()
            await world.listed(SERIAL, "ttyUSB0")


async def test_a_kubelet_that_restarts_says_nothing_of_other_instances(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It removes all sockets."""
    caplog.set_level(logging.INFO)
    async with world.serving(serial()) as older, world.serving(serial()) as newer:
        async with world.kubelet:
            await both_active(world, older, newer)
            await logged(caplog, "another instance of genericdp", times=2)
        await logged(caplog, "waiting for a kubelet: there is no", times=2)
        again = Kubelet(world.kubelet.folder, generation=world.kubelet.generation)
        async with again:
            await logged(caplog, "another instance of genericdp", times=4)
        assert "has gone" not in caplog.text


async def test_a_folder_that_is_emptied_says_nothing_of_other_instances(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = world.kubelet.folder
    async with world.kubelet, world.serving(serial()) as older, world.serving(serial()) as newer:
        await both_active(world, older, newer)
        await contested(older.plugins[SERIAL])
        (folder / "kubelet.sock").unlink()
        await logged(caplog, "waiting for a kubelet", times=2)
        for path in folder.glob("genericdp-*"):
            path.unlink()
        await uncontested(older.plugins[SERIAL])
        await asyncio.sleep(1)  # nothing is to come
        assert "has gone" not in caplog.text


async def test_a_folder_that_is_moved_away_says_nothing_of_other_instances(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by a new user: both were said to have gone."""
    caplog.set_level(logging.INFO)
    folder = world.kubelet.folder
    away = folder.with_name("away")
    async with world.kubelet, world.serving(serial()) as older, world.serving(serial()) as newer:
        await both_active(world, older, newer)
        await contested(older.plugins[SERIAL])
        await logged(caplog, "another instance of genericdp", times=2)
        folder.rename(away)
        await logged(caplog, "waiting for a kubelet", times=2)
        await asyncio.sleep(1)  # nothing is to come
        away.rename(folder)
        assert "has gone" not in caplog.text


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
        await world.active(older, SERIAL)
        faults.stream_delay_seconds = 3600.0
        newer = await new.enter_async_context(world.serving(serial(), timing=timing))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.accepted[SERIAL] == 2, 30)
        await contested(newer.plugins[SERIAL])
        await old.aclose()
        faults.stream_delay_seconds = 0.0
        active = newer.plugins[SERIAL].active
        assert await until(lambda: active.value, active, timeout_seconds=30)
        await world.listed(SERIAL, "ttyUSB0")
        assert (await world.container(serial=1)).env == {"SERIAL": "ttyUSB0"}


async def test_a_stream_that_only_comes_late_when_an_instance_leaves_is_taken(
    short_folder: Path,
) -> None:
    """K10, REG-10: from 1.37 on the new connection lives on: nobody registers again."""
    folder = short_folder / "k"
    folder.mkdir()
    world = World(short_folder, Kubelet(folder, generation=Generation.B))
    world.host.plug("ttyUSB0")
    timing = replace(FAST, stream=60.0, farewell=60.0)
    async with world.kubelet, AsyncExitStack() as old, AsyncExitStack() as new:
        older = await old.enter_async_context(world.serving(serial()))
        await world.active(older, SERIAL)
        world.kubelet.faults.stream_delay_seconds = 0.5
        newer = await new.enter_async_context(world.serving(serial(), timing=timing))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.accepted[SERIAL] == 2, 30)
        await old.aclose()
        await world.active(newer, SERIAL)
        await uncontested(newer.plugins[SERIAL])
        await world.listed(SERIAL, "ttyUSB0")
        assert world.kubelet.observed.registrations[SERIAL] == 2


async def test_two_instances_say_so_once_and_when_it_is_over(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """REG-13: a second DaemonSet, or a rolling update: state and log name the resource."""
    caplog.set_level(logging.INFO)
    world.host.plug("ttyUSB0")
    async with world.kubelet, world.serving(serial()) as one, AsyncExitStack() as other:
        second = await other.enter_async_context(world.serving(serial()))
        await both_active(world, one, second)
        for supervisor in (one, second):
            text = await contested(supervisor.plugins[SERIAL])
            assert text.startswith("another instance of genericdp serves it on this node, too")
        await logged(caplog, "serves on this node, too", times=2)
        await other.aclose()
        assert await uncontested(one.plugins[SERIAL])
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)
        await logged(caplog, ") has gone", times=1)
    said = [line for line in caplog.messages if "serves on this node, too" in line]
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


async def test_an_unknown_plugin_that_throws_us_out_is_suspected_with_its_socket(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """REG-9b: said once, with what to do; and once more when it is over."""
    caplog.set_level(logging.INFO)
    world.host.plug("ttyUSB0")
    timing = replace(FAST, steady=1.0, contested_retry=0.05)
    stranger = BarePlugin(world.kubelet.folder, name="squat.sock")
    async with world.kubelet, world.serving(serial(), timing=timing) as supervisor:
        await stranger.start()
        await world.active(supervisor, SERIAL)
        plugin = supervisor.plugins[SERIAL]
        active = plugin.active
        while not plugin._contest.is_suspected:
            assert await until(lambda: active.value, active, timeout_seconds=30)
            world.kubelet.break_streams(SERIAL)
            assert await until(lambda: not active.value, active, timeout_seconds=30)
        await contested(plugin)
        assert f"may serve {SERIAL} on this node (sockets there that are not ours: squat.sock)" in (
            plugin.contested.value
        )
        await stranger.stop()
        assert await uncontested(plugin)
        await world.listed(SERIAL, "ttyUSB0")
    text = caplog.text
    assert text.count("let only one of them serve it") == 1
    assert text.count("nobody else seems to serve the resource any more") == 1


@pytest.mark.parametrize(
    ("lifetimes", "suspected"),
    [([], False), ([1, 1], False), ([1, 1, 1], True), ([1, 1, 61, 1], False), ([1] * 9, True)],
)
def test_streams_in_a_row_that_end_early_are_suspicious(
    lifetimes: list[float], suspected: bool
) -> None:
    contest, now = Contest(), 0.0
    for lasted in lifetimes:
        contest = contest.after(begun=now, ended=now + lasted, steady_seconds=60)
        now += lasted + 1
    assert contest.is_suspected is suspected


def test_a_suspicion_says_since_when_and_names_a_few_sockets() -> None:
    contest = Contest(ends=3, since=2.0)
    assert contest.reason("a/b", (), now=14.0) == (
        "the kubelet has ended our stream 3 times within 12 s, each time soon after it had begun:"
        " another device plugin may serve a/b on this node"
    )
    assert listed([f"{i}.sock" for i in range(7)]).endswith("4.sock and 2 more")
