"""A policy that changes below a daemon, as a kubelet sees it."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.model import Command, Probe
from genericdp.observed import until
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from genericdp.template import parse
from tests.config.bounded import HEAD, policy_of
from tests.reloading.configs import config
from tests.supervising import World, counts, serial
from tests.test_daemon import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from genericdp.policy import Policy
    from genericdp.supervisor import Supervisor

ONE, SERIAL = "example.com/ttyUSB0", "example.com/serial"


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    async with Kubelet(short_folder / "kubelet") as kubelet:
        yield World(short_folder, kubelet)


def bound_by(supervisor: Supervisor) -> Policy | None:
    return supervisor.offers.value[SERIAL].offered["ttyUSB0"].device.policy


async def test_a_stricter_policy_is_told_at_once_and_holds_from_the_next_start_on(
    short_folder: Path,
) -> None:
    """What runs keeps its devices; what was forbidden comes back neither from disk nor state."""
    place = Place(short_folder)
    place.config.write_text(config("ttyUSB0"))
    policy = short_folder / "p.yaml"
    policy.write_text(f"{HEAD}devices: {{}}\n")
    arguments = (f"--policy={policy}", f"--state-dir={short_folder / 'state'}")
    async with Kubelet(place.kubelet_folder) as kubelet:
        async with place.daemon(*arguments) as daemon:
            await kubelet.wait_for(lambda: kubelet.capacity(ONE) == 1, 20)
            before = counts(kubelet, ONE)
            policy.write_text(f"{HEAD}devices:\n  paths: [/dev/sda]\n")
            await daemon.says(
                f"config.yaml:5:20: .resources[0].match[0].path: '/dev/ttyUSB0' is not allowed"
                f" (policy {policy}:3 says devices: /dev/sda)"
            )
            await daemon.says("the one in force stays, with its policy, until it is corrected")
            container = Container(name="main", limits={ONE: 1})
            admission = await kubelet.admit(Pod(uid="pod", containers=(container,)))
            assert admission.admitted, admission.message
            assert counts(kubelet, ONE) == before
            daemon.process.send_signal(signal.SIGTERM)
            assert await daemon.ends() == 0
        async with place.daemon(*arguments) as daemon:
            await daemon.says("the last good config is ignored: the policy does not allow what is")
            await daemon.says("nothing is served until it is corrected")
            assert kubelet.observed.registrations[ONE] == 1
            policy.write_text(f"{HEAD}devices:\n  paths: [/dev/tty*]\n")
            await kubelet.wait_for(lambda: kubelet.observed.registrations[ONE] == 2, 20)


async def test_a_policy_that_is_spoilt_ends_a_daemon_only_at_its_start(short_folder: Path) -> None:
    place = Place(short_folder)
    place.config.write_text(config("ttyUSB0"))
    policy = short_folder / "p.yaml"
    policy.write_text(f"{HEAD}devices: {{}}\n")
    async with Kubelet(place.kubelet_folder) as kubelet:
        async with place.daemon(f"--policy={policy}") as daemon:
            await kubelet.wait_for(lambda: kubelet.capacity(ONE) == 1, 20)
            policy.write_text("")
            await daemon.says("the policy cannot be used: the one in force stays until")
            assert kubelet.capacity(ONE) == 1
            daemon.process.send_signal(signal.SIGTERM)
            assert await daemon.ends() == 0
        async with place.daemon(f"--policy={policy}") as daemon:
            assert await daemon.ends() == 2
            assert "a policy that allows nothing has two lines" in "".join(daemon.lines)


async def test_another_policy_leaves_what_it_allows_healthy_and_takes_back_the_rest(
    world: World, tmp_path: Path
) -> None:
    """No list goes out for the first, and no probe begins anew."""
    world.host.plug("ttyUSB0")
    check = Command(argv=(parse("/bin/true"),))
    one = replace(serial(), health=(Probe(check=check, period_seconds=3600),))
    more = "commands: [{path: /bin/true}]\nenv: ['*']\n"
    wide, other, narrow = (
        policy_of(tmp_path, f"{text}{more}")
        for text in ("devices: {}\n", "\n\ndevices: {paths: [/dev/tty*]}\n", "")
    )
    async with world.serving(replace(one, policy=wide)) as supervisor:
        await world.active(supervisor, SERIAL)
        await world.listed(SERIAL, "ttyUSB0")
        before = counts(world.kubelet, SERIAL)
        supervisor.resources.value = (replace(one, policy=other),)
        offers = supervisor.offers
        assert await until(lambda: bound_by(supervisor) == other, offers, timeout_seconds=10)
        await world.container(serial=1)
        assert counts(world.kubelet, SERIAL) == before
        supervisor.resources.value = (replace(one, policy=narrow),)
        await world.listed(SERIAL)
        assert world.kubelet.devices(SERIAL) == {"ttyUSB0": "Unhealthy"}
        offered = supervisor.offers.value[SERIAL].offered["ttyUSB0"]
        assert "has no 'devices', which allows none" in offered.unhealthy
        supervisor.resources.value = (replace(one, policy=wide),)
        await world.listed(SERIAL, "ttyUSB0")
        assert counts(world.kubelet, SERIAL)[0] == before[0]
