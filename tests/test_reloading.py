"""Reloads of the daemon as a process, and of its supervisor, as a kubelet sees them."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.model import Command, Hook, Hooks
from genericdp.observed import until
from genericdp.simulator.kubelet import Kubelet
from genericdp.template import parse
from tests.reloading.configs import BAD, HEAD, ConfigMap, config
from tests.supervising import World, counts, resource, serial
from tests.test_daemon import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ONE, OTHER = "example.com/ttyUSB0", "example.com/ttyUSB1"


@pytest.fixture
def place(short_folder: Path) -> Place:
    place = Place(short_folder)
    place.host.plug("ttyUSB1")
    return place


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    async with Kubelet(short_folder / "kubelet") as kubelet:
        yield World(short_folder, kubelet)


async def test_a_swapped_config_map_is_served_and_what_is_equal_is_left_alone(
    place: Place,
) -> None:
    """C7: a config change needs a restart of everything, or is never read."""
    place.config = place.config.with_name("volume")
    volume = ConfigMap(place.config, {"a.yaml": config("ttyUSB0", replicas=2)})
    async with Kubelet(place.kubelet_folder) as kubelet, place.daemon() as daemon:
        await kubelet.wait_for(lambda: kubelet.capacity(ONE) == 2, 10)
        before = counts(kubelet, ONE)
        volume.update({"a.yaml": config("ttyUSB1"), "b.yaml": config("ttyUSB0", replicas=2)})
        await daemon.says("config in force: 2 resources, 1 added, 0 removed, 0 changed")
        await kubelet.wait_for(lambda: kubelet.capacity(OTHER) == 1, 10)
        volume.update({"a.yaml": config("ttyUSB1", replicas=3), "b.yaml": config("ttyUSB0")})
        await kubelet.wait_for(lambda: kubelet.capacity(OTHER) == 3, 10)
        await kubelet.wait_for(lambda: kubelet.capacity(ONE) == 1, 10)
        volume.update({"a.yaml": config("ttyUSB0")})
        await kubelet.wait_for(lambda: kubelet.capacity(OTHER) == 0, 10)
        await daemon.says("stopped")
        registrations, lists, paths = counts(kubelet, ONE)
        assert (registrations, paths) == (before[0], before[2])
        assert lists == before[1] + 1
        assert kubelet.observed.registrations[OTHER] == 1
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.ends() == 0


async def test_a_reload_of_the_policy_alone_says_so(place: Place) -> None:
    policy = place.config.with_name("policy.yaml")
    bounds = HEAD.replace("Config", "Policy").replace("resources:", "devices: {}")
    policy.write_text(bounds)
    place.config.write_text(config("ttyUSB0"))
    async with place.daemon(f"--policy={policy}") as daemon:
        digest = hashlib.sha256(policy.read_bytes()).hexdigest()[:12]
        of = f"({place.config}; policy {policy}, SHA-256"
        await daemon.says(f"config in force: 1 resource {of} {digest})")
        policy.write_text(bounds.replace("{}", "{block: true}"))
        digest = hashlib.sha256(policy.read_bytes()).hexdigest()[:12]
        same = "config in force: 1 resource, nothing to change, under another policy"
        await daemon.says(f"{same} {of} {digest})")


async def test_a_hangup_reloads_and_a_bad_config_changes_nothing(place: Place) -> None:
    """C8: SIGHUP kills the process, or restarts without reading the config."""
    place.config.write_text(config("ttyUSB0"))
    async with Kubelet(place.kubelet_folder) as kubelet, place.daemon() as daemon:
        await kubelet.wait_for(lambda: kubelet.capacity(ONE) == 1, 10)
        before = counts(kubelet, ONE)
        daemon.process.send_signal(signal.SIGHUP)
        await daemon.says("the config on disk is the one in force")
        place.config.write_text(BAD)
        daemon.process.send_signal(signal.SIGHUP)
        await daemon.says("unknown key 'matches' (did you mean 'match'?)")
        await daemon.says("the config cannot be used: the one in force stays until")
        place.config.write_text(config("ttyUSB0", "ttyUSB1"))
        daemon.process.send_signal(signal.SIGHUP)
        await kubelet.wait_for(lambda: kubelet.capacity(OTHER) == 1, 10)
        assert counts(kubelet, ONE) == before
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.ends() == 0


async def test_a_restart_with_a_bad_config_serves_the_last_good_one(place: Place) -> None:
    """C10: a node that reboots crash-loops, or offers nothing."""
    state = f"--state-dir={place.config.with_name('state')}"
    place.config.write_text(config("ttyUSB0"))
    async with Kubelet(place.kubelet_folder) as kubelet:
        async with place.daemon(state) as daemon:
            await daemon.says("registered")
            while not list(place.config.with_name("state").glob("last-good.json")):
                await asyncio.sleep(0.01)
        place.config.write_text(BAD)
        async with place.daemon(state) as daemon:
            await daemon.says("unknown key 'matches'")
            await daemon.says("the last good one, from")
            await daemon.says("registered")
            place.config.write_text(config("ttyUSB1"))
            await kubelet.wait_for(lambda: kubelet.capacity(OTHER) == 1, 10)
            daemon.process.send_signal(signal.SIGTERM)
            assert await daemon.ends() == 0


async def test_a_reload_of_a_hundred_resources_sends_the_one_list_that_changed(
    world: World,
) -> None:
    names = [f"ttyACM{i}" for i in range(100)]
    for name in names:
        world.host.plug(name, major=166)
    resources = [resource(f"example.com/{name}", f"/dev/{name}") for name in names]
    async with world.serving(*resources) as supervisor:
        for one in resources:
            await world.active(supervisor, one.name)
        before = {one.name: counts(world.kubelet, one.name) for one in resources}
        moved = [replace(one, place=replace(one.place, line=7)) for one in resources]
        moved[42] = replace(moved[42], replicas=2)
        supervisor.resources.value = tuple(reversed(moved))
        await world.listed("example.com/ttyACM42", "ttyACM42", "ttyACM42::1")
        after = {one.name: counts(world.kubelet, one.name) for one in resources}
        different = [name for name in before if before[name] != after[name]]
        assert different == ["example.com/ttyACM42"]
        registrations, lists, paths = before["example.com/ttyACM42"]
        assert after["example.com/ttyACM42"] == (registrations, lists + 1, paths)


async def test_one_that_is_removed_holds_up_none_of_the_others(world: World) -> None:
    """The empty list has a second to arrive: a plug must not wait for that."""
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    leaving = resource("example.com/modem", "/dev/ttyACM0")
    async with world.serving(serial(), leaving) as supervisor:
        await world.active(supervisor, "example.com/modem")
        await world.listed("example.com/serial", "ttyUSB0")
        supervisor.resources.value = (serial(),)
        await world.listed("example.com/modem")
        world.host.plug("ttyUSB1")
        begun = asyncio.get_running_loop().time()
        await world.listed("example.com/serial", "ttyUSB0", "ttyUSB1")
        assert asyncio.get_running_loop().time() - begun < 0.8


async def test_one_that_returns_during_its_farewell_is_served_again(world: World) -> None:
    """Its old server is stopped first: never two of one resource (REG-9b)."""
    world.host.plug("ttyUSB0")
    async with world.serving(serial()) as supervisor:
        await world.active(supervisor, "example.com/serial")
        supervisor.resources.value = ()
        await world.listed("example.com/serial")
        supervisor.resources.value = (serial(),)
        counted = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: counted["example.com/serial"] == 2)
        assert len(list(world.kubelet.folder.glob("genericdp-*.sock"))) == 1
        await world.listed("example.com/serial", "ttyUSB0")


async def test_one_that_is_removed_again_during_its_farewell_ends_nothing_else(
    world: World,
) -> None:
    """It ended the daemon: the second farewell was over before the first, and forgot both."""
    name = "example.com/serial"
    world.host.plug("ttyUSB0")
    async with world.serving(serial()) as supervisor:
        await world.active(supervisor, name)
        supervisor.resources.value = ()
        await world.listed(name)
        for _ in range(2):
            supervisor.resources.value = (serial(),)
            await until(lambda: name in supervisor.plugins, supervisor.offers)
            supervisor.resources.value = ()
            await until(lambda: name not in supervisor.plugins, supervisor.offers)
        supervisor.resources.value = (serial(),)
        counted = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: counted[name] == 2)
        assert len(list(world.kubelet.folder.glob("genericdp-*.sock"))) == 1
        await world.listed(name, "ttyUSB0")


async def test_other_options_are_registered_anew_without_an_empty_list(world: World) -> None:
    """REG-7: a kubelet asks for them once for each registration."""
    world.host.plug("ttyUSB0")
    hooks = Hooks(pre_start=Hook(command=Command(argv=(parse("/bin/true"),))))
    async with world.serving(serial()) as supervisor:
        await world.active(supervisor, "example.com/serial")
        supervisor.resources.value = (replace(serial(), hooks=hooks),)
        await world.kubelet.wait_for(
            lambda: world.kubelet.observed.registrations["example.com/serial"] == 2
        )
        await world.listed("example.com/serial", "ttyUSB0")
        sizes = [
            one.size
            for one in world.kubelet.observed.history
            if one.resource == "example.com/serial"
        ]
        assert sizes == [1, 1]
