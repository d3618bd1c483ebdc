"""A policy that changes below a daemon, as a kubelet sees it."""

from __future__ import annotations

from tests.config.bounded import HEAD
from tests.world import World, counts, resource

SERIAL = "example.com/serial"


async def test_another_policy_leaves_what_it_allows_healthy_and_takes_back_the_rest(
    world: World,
) -> None:
    """No list goes out for the first, and no probe begins anew."""
    world.host.plug("ttyUSB0")
    link = world.host.folder / "dev/by-id/one"
    link.parent.mkdir()
    link.symlink_to("../ttyUSB0")
    one = resource(
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
    async with world.serving(one, policy=wide) as daemon:
        await daemon.registered(SERIAL)
        await world.listed(SERIAL, "ttyUSB0")
        before = counts(world.kubelet, SERIAL)
        await daemon.takes(one, policy=other)
        await daemon.log.says("nothing to change, under another policy")
        await world.container(serial=1)
        assert counts(world.kubelet, SERIAL) == before
        await daemon.takes(one, policy=narrow)
        await world.listed(SERIAL)
        assert world.kubelet.devices(SERIAL) == {"ttyUSB0": "Unhealthy"}
        refusal = "/dev/ttyUSB0 is not among the device nodes that are allowed"
        await daemon.shows(SERIAL, lambda found: refusal in found["devices"][0]["reason"])
        await daemon.takes(one, policy=wide)
        await world.listed(SERIAL, "ttyUSB0")
        assert counts(world.kubelet, SERIAL)[0] == before[0]
