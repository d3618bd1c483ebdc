"""Devices of this machine that the kernel plugs and unplugs, up to the kubelet's list."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.world import World, resource

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


async def healthy(world: World, name: str, *, there: bool = True) -> None:
    """Wait until a device is Healthy, or is not."""

    def is_so() -> bool:
        return (world.kubelet.devices(NAME).get(name) == "Healthy") is there

    await world.kubelet.wait_for(is_so)


async def test_devices_that_come_change_and_go_are_listed_at_once(world: World) -> None:
    """D3. Without ``Uevents`` the next full look would be half a minute later.

    No event reports what is written to an attribute; the kernel's change event does.
    """
    wanted = zram(**{"initstate": "0", "queue/rotational": "0"})
    with plugged() as sure:
        async with world.serving(wanted, root=ROOT) as daemon, asyncio.timeout(60):
            await daemon.registered(NAME)
            await healthy(world, sure)
            with plugged() as new:
                await healthy(world, new)
                block = Path("/sys/block", new)
                for attribute, text in (("disksize", "1048576"), ("reset", "1")):
                    (block / attribute).write_text(text)
                    (block / "uevent").write_text("change")
                    await healthy(world, new, there=attribute == "reset")
                    await healthy(world, sure)
            await healthy(world, new, there=False)
            reason = f"/dev/{new} does not exist"
            await daemon.shows(
                NAME,
                lambda found: (
                    (new, reason)
                    in {(device["id"], device["reason"]) for device in found["devices"]}
                ),
            )
