"""Lines of the kernel's log change the devices that the kubelet has."""

from __future__ import annotations

from functools import partial

import pytest
from genericdp.health.health import Health

from tests.host.kernel_log import Script, record
from tests.world import World, serial

NAME = "example.com/serial"


@pytest.fixture
async def world(world: World) -> World:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    return world


def watched(**keys: int) -> dict[str, object]:
    """Return serial adapters that the kernel's log may name."""
    line = {"regex": r"usb-serial: (?P<name>\w+) failed", "where": {"name": "$(device.name)"}}
    return serial(health=[{"kernelLog": line, **keys}])


def failed(name: str, *, sequence: int, seconds: float = 1.0) -> bytes:
    return record(f"usb-serial: {name} failed", sequence=sequence, seconds=seconds)


async def test_a_device_recovers_so_long_after_the_last_line_that_named_it(world: World) -> None:
    """D6: Unhealthy forever after one error."""
    script = Script()
    health = partial(Health, open_log=script.open)
    async with world.serving(watched(recoverAfterSeconds=2), health=health) as daemon:
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        script.add(failed("ttyUSB0", sequence=1, seconds=7))
        await world.listed(NAME, "ttyUSB1")
        await daemon.log.says(
            "device ttyUSB0 is Unhealthy: kernelLog: [7.000000] usb-serial: ttyUSB0 failed"
        )
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        assert daemon.log.count("device ttyUSB1 is Unhealthy") == 0


async def test_a_line_of_long_ago_counts_only_where_nothing_ends_it(world: World) -> None:
    """D6: and a restart of the daemon makes no broken device Healthy."""
    lines = [failed("ttyUSB0", sequence=1, seconds=0)]
    health = partial(Health, open_log=Script(lines).open)
    async with world.serving(watched(recoverAfterSeconds=1), health=health):
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
    async with world.serving(watched(), health=health) as daemon:
        await world.listed(NAME, "ttyUSB1")
        why = "kernelLog: [0.000000] usb-serial: ttyUSB0 failed"
        await daemon.offers(NAME, ttyUSB0=why, ttyUSB1="")
