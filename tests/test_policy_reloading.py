"""A policy that changes below a daemon, as a kubelet sees it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from genericdp.simulator.kubelet import Kubelet

from tests.config.bounded import HEAD
from tests.config.changing import config
from tests.test_daemon import Place
from tests.world import World, counts, resource

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


ONE, SERIAL = "example.com/ttyUSB0", "example.com/serial"


async def test_a_policy_that_is_spoilt_ends_a_daemon_only_at_its_start(
    short_directory: Path,
) -> None:
    place = Place(short_directory)
    place.config.write_text(config("ttyUSB0"))
    policy = short_directory / "p.yaml"
    policy.write_text(f"{HEAD}devices: {{}}\n")
    async with Kubelet(place.kubelet_directory) as kubelet:
        async with place.daemon(f"--policy={policy}") as daemon:
            await kubelet.wait_for(lambda: kubelet.capacity(ONE) == 1, 20)
            policy.write_text("")
            await daemon.says("the policy cannot be used: the active one stays until")
            assert kubelet.capacity(ONE) == 1
            daemon.process.send_signal(signal.SIGTERM)
            assert await daemon.ends() == 0
        for more in ([], [f"--state-dir={short_directory}/state"]):
            async with place.daemon(f"--policy={policy}", *more) as daemon:
                assert await daemon.ends() == 2
                assert "a policy that allows nothing has two lines" in "".join(daemon.lines)


async def test_another_policy_leaves_what_it_allows_healthy_and_takes_back_the_rest(
    world: World,
) -> None:
    """No list goes out for the first, and no probe begins again."""
    world.host.plug("ttyUSB0")
    link = world.host.directory / "dev/by-id/one"
    link.parent.mkdir()
    link.symlink_to("../ttyUSB0")
    spec = resource(
        SERIAL,
        "/dev/by-id/*",
        id="$(device.name)",
        health=[{"exec": {"command": ["/bin/true"]}, "periodSeconds": 3600}],
    )
    more = "commands: [{path: /bin/true}]\nenv: ['*']\n"
    wide, other, narrow = (
        f"{HEAD}{text}{more}"
        for text in (
            "devices: {}\n",
            "\n\ndevices: {paths: [/dev/by-id, /dev/tty*]}\n",
            "devices: {paths: [/dev/by-id]}\n",
        )
    )
    async with world.serving(spec, policy=wide) as daemon:
        await daemon.registered(SERIAL)
        await world.listed(SERIAL, "ttyUSB0")
        before = counts(world.kubelet, SERIAL)
        await daemon.takes(spec, policy=other)
        await daemon.log.says("nothing to change, under another policy")
        await world.container(serial=1)
        assert counts(world.kubelet, SERIAL) == before
        await daemon.takes(spec, policy=narrow)
        await world.listed(SERIAL)
        assert world.kubelet.devices(SERIAL) == {"ttyUSB0": "Unhealthy"}
        refusal = "/dev/ttyUSB0 is not among the device nodes that are allowed"
        await daemon.shows(SERIAL, lambda found: refusal in found["devices"][0]["reason"])
        await daemon.takes(spec, policy=wide)
        await world.listed(SERIAL, "ttyUSB0")
        assert counts(world.kubelet, SERIAL)[0] == before[0]
