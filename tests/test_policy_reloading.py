"""A policy that changes below a daemon, as a kubelet sees it."""

from __future__ import annotations

import pytest

from tests.config.bounded import HEAD
from tests.world import World, counts, resource

pytestmark = pytest.mark.slow


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
        f"{HEAD}{text}{more}"
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
    policy = f"{HEAD}devices: {{}}\nmounts: [{{hostPath: /opt}}]\n"
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
