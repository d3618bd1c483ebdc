"""Reloads of the daemon as a process, as a kubelet sees them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.config.changing import BAD, config
from tests.test_daemon import Place
from tests.world import World, counts, resource, serial

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

ONE, OTHER = "example.com/ttyUSB0", "example.com/ttyUSB1"
ELSEWHERE = serial("example.com/elsewhere", nodeNames=["elsewhere"])


@pytest.fixture
def place(short_directory: Path) -> Place:
    place = Place(short_directory)
    place.host.plug("ttyUSB1")
    return place


async def test_a_hangup_reloads_and_a_bad_config_changes_nothing(place: Place) -> None:
    """C8: SIGHUP kills the process, or restarts without reading the config."""
    place.config.write_text(config("ttyUSB0"))
    async with place.serving() as (kubelet, daemon):
        await kubelet.wait_for(lambda: kubelet.capacity(ONE) == 1)
        before = counts(kubelet, ONE)
        daemon.process.send_signal(signal.SIGHUP)
        await daemon.says("the config on disk is active")
        place.config.write_text(BAD)
        daemon.process.send_signal(signal.SIGHUP)
        await daemon.says("unknown key 'matches' (did you mean 'match'?)")
        await daemon.says("the config cannot be used: the active one stays until")
        place.config.write_text(config("ttyUSB0", "ttyUSB1"))
        daemon.process.send_signal(signal.SIGHUP)
        await kubelet.wait_for(lambda: kubelet.capacity(OTHER) == 1)
        assert counts(kubelet, ONE) == before


async def test_one_that_is_removed_holds_up_none_of_the_others(world: World) -> None:
    """The empty list has a second to arrive: a plug must not wait for that."""
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    leaving = resource("example.com/modem", "/dev/ttyACM0")
    async with world.serving(serial(), leaving) as daemon:
        await daemon.registered("example.com/modem")
        await world.listed("example.com/serial", "ttyUSB0")
        await daemon.takes(serial())
        await world.listed("example.com/modem")
        world.host.plug("ttyUSB1")
        await world.listed("example.com/serial", "ttyUSB0", "ttyUSB1")
        assert daemon.log.count("example.com/modem: stopped") == 0


@pytest.mark.parametrize("times", [0, 2])
async def test_one_that_returns_during_its_farewell_is_served_again(
    world: World, times: int
) -> None:
    """Its old server is stopped first: never two of one resource (REG-9b).

    Removed once more meanwhile, it ended the daemon: the second farewell was over before the first.
    """
    name = "example.com/serial"
    world.host.plug("ttyUSB0")
    async with world.serving(serial()) as daemon:
        await daemon.registered(name)
        await daemon.takes(ELSEWHERE)
        await world.listed(name)
        for _ in range(times):
            await daemon.takes(serial())
            await daemon.takes(ELSEWHERE)
        await daemon.takes(serial())
        counted = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: counted[name] == 2)
        assert len(list(world.kubelet.directory.glob("genericdp-*.sock"))) == 1
        await world.listed(name, "ttyUSB0")


async def test_other_options_are_registered_anew_without_an_empty_list(world: World) -> None:
    """REG-7: a kubelet requests them once for each registration."""
    world.host.plug("ttyUSB0")
    hooks = {"preStart": {"exec": {"command": ["/bin/true"]}}}
    async with world.serving(serial()) as daemon:
        await daemon.registered("example.com/serial")
        await daemon.takes(serial(hooks=hooks))
        await world.kubelet.wait_for(
            lambda: world.kubelet.observed.registrations["example.com/serial"] == 2
        )
        lists = world.kubelet.observed.lists
        await world.kubelet.wait_for(lambda: lists["example.com/serial"] >= 2)
        await world.listed("example.com/serial", "ttyUSB0")
        assert lists["example.com/serial"] == 2
