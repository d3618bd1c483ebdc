"""Other configs and policies for a daemon that runs, as a kubelet sees them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.config.bounded import HEAD as POLICY_HEAD
from tests.config.changing import BAD, config
from tests.test_daemon import Place
from tests.world import World, counts, resource, serial

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


SERIAL = "example.com/serial"


async def test_another_policy_leaves_what_it_allows_healthy_and_takes_back_the_rest(
    world: World,
) -> None:
    """No list goes out for the first, and no probe begins again."""
    world.host.plug("ttyUSB0")
    link = world.host.directory / "dev/by-id/one"
    link.parent.mkdir()
    link.symlink_to("../ttyUSB0")
    serial = resource(
        SERIAL,
        "/dev/by-id/*",
        id="$(device.name)",
        health=[{"exec": {"command": ["/bin/true"]}, "periodSeconds": 3600}],
    )
    more = "commands: [{path: /bin/true}]\nenv: ['*']\n"
    wide, other, narrow = (
        f"{POLICY_HEAD}{text}{more}"
        for text in (
            "devices: {}\n",
            "\n\ndevices: {paths: [/dev/by-id, /dev/tty*]}\n",
            "devices: {paths: [/dev/by-id]}\n",
        )
    )
    async with world.serving(serial, policy=wide) as daemon:
        await daemon.registered(SERIAL)
        await world.listed(SERIAL, "ttyUSB0")
        before = counts(world.kubelet, SERIAL)
        await daemon.takes(serial, policy=other)
        await daemon.log.says("nothing to change, under another policy")
        await world.container(serial=1)
        assert counts(world.kubelet, SERIAL) == before
        await daemon.takes(serial, policy=narrow)
        await world.listed(SERIAL)
        assert world.kubelet.devices(SERIAL) == {"ttyUSB0": "Unhealthy"}
        refusal = "/dev/ttyUSB0 is not among the device nodes that are allowed"
        await daemon.shows(SERIAL, lambda found: refusal in found["devices"][0]["reason"])
        await daemon.takes(serial, policy=wide)
        await world.listed(SERIAL, "ttyUSB0")
        assert counts(world.kubelet, SERIAL)[0] == before[0]


async def test_a_link_that_is_turned_after_the_device_was_listed_is_refused_at_allocate(
    world: World,
) -> None:
    world.host.plug("ttyUSB0")
    for directory in ("opt/lib", "etc"):
        (world.host.directory / directory).mkdir(parents=True)
    link = world.host.directory / "opt/driver"
    link.symlink_to("lib")
    mounts = [{"hostPath": "/opt/driver", "containerPath": "/x"}]
    inject = {"devices": [{"path": "$(device.path)"}], "mounts": mounts}
    policy = f"{POLICY_HEAD}devices: {{}}\nmounts: [{{hostPath: /opt}}]\n"
    async with world.serving(
        resource(SERIAL, "/dev/ttyUSB0", inject=inject), policy=policy
    ) as daemon:
        await daemon.registered(SERIAL)
        await world.listed(SERIAL, "ttyUSB0")
        link.unlink()
        link.symlink_to("../etc")
        assert "/etc is not among the mounts that are allowed (policy " in await world.refusal(
            serial=1
        )
        await daemon.log.says(
            "device ttyUSB0 is Unhealthy: /dev/ttyUSB0: /etc is not among the mounts"
        )
        assert daemon.log.count("is not offered") == 0, "one line says it"
