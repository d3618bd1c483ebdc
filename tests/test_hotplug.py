"""Devices of this machine that the kernel plugs and unplugs, up to the kubelet's list."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.world import World, resource

if TYPE_CHECKING:
    from collections.abc import Iterator

ZRAM = Path("/sys/class/zram-control")
ROOT = Path("/")
NAME = "example.com/zram"
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not ZRAM.exists(), reason="only root can plug a zram device, if at all"
)


@contextmanager
def plugged() -> Iterator[str]:
    """A zram device; gives its name."""
    number = (ZRAM / "hot_add").read_text().strip()
    try:
        yield f"zram{number}"
    finally:
        (ZRAM / "hot_remove").write_text(number)


def zram(**attributes: str) -> dict[str, object]:
    """Return a resource of zram devices, by their attributes."""
    udev = {"subsystem": "block", "devtype": "disk", "name": "zram*", "attributes": attributes}
    return resource(NAME, match=[{"udev": udev}])


async def test_devices_that_come_change_and_go_are_listed_at_once(world: World) -> None:
    """D3. Without ``Uevents`` the next full look would be half a minute later.

    What is written to an attribute is told by nobody; the kernel's change event is.
    """
    with plugged() as sure:
        wanted = zram(**{"initstate": "0", "queue/rotational": "0"})
        async with world.serving(wanted, root=ROOT) as daemon, asyncio.timeout(60):
            await daemon.registered(NAME)
            await world.kubelet.wait_for(lambda: sure in _healthy(world))
            with plugged() as new:
                await world.kubelet.wait_for(lambda: {sure, new} <= _healthy(world))
                block = Path("/sys/block", new)
                (block / "disksize").write_text("1048576")
                (block / "uevent").write_text("change")
                await world.kubelet.wait_for(lambda: new not in _healthy(world))
                assert sure in _healthy(world)
                (block / "reset").write_text("1")
                (block / "uevent").write_text("change")
                await world.kubelet.wait_for(lambda: new in _healthy(world))
            await world.kubelet.wait_for(lambda: new not in _healthy(world))
            reason = f"/dev/{new} does not exist"
            await daemon.shows(
                NAME,
                lambda found: (
                    reason in [one["reason"] for one in found["devices"] if one["id"] == new]
                ),
            )


async def test_a_device_that_returns_is_healthy_at_once_and_nothing_else_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """D3: inotify tells of the node before the kernel tells of the device."""
    caplog.set_level(logging.INFO)
    with plugged() as name:
        pass
    async with world.serving(zram(), root=ROOT) as daemon, asyncio.timeout(60):
        await daemon.registered(NAME)
        for _ in range(5):
            # In a thread: what is told while the loop stands still would be told together.
            number = await asyncio.to_thread((ZRAM / "hot_add").read_text)
            try:
                assert f"zram{number.strip()}" == name, "the kernel gives the lowest free number"
                await world.kubelet.wait_for(lambda: name in _healthy(world))
            finally:
                await asyncio.to_thread((ZRAM / "hot_remove").write_text, number)
            await world.kubelet.wait_for(lambda: name not in _healthy(world))
        reasons = {
            record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
        }
    assert reasons == {f"device {name} is Unhealthy: /dev/{name} does not exist"}


def _healthy(world: World) -> set[str]:
    devices = world.kubelet.devices(NAME)
    return {one for one, health in devices.items() if health == "Healthy"}
