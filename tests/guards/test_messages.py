"""How many messages the kubelet gets for one change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genericdp.simulator.kubelet import Kubelet
from tests.world import World, resource

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("serial", "modem", "camera")
QUIET_SECONDS = 0.5
"""Longer than what changes together is waited for: 100 ms."""


async def test_a_flip_is_one_list_of_one_resource_and_no_registration(short_folder: Path) -> None:
    """Bites if a list is sent twice, or a change ends the stream to register anew."""
    folder = short_folder / "k"
    folder.mkdir()
    resources = [resource(f"example.com/{name}", f"/dev/{name}*") for name in NAMES]
    changed = f"example.com/{NAMES[0]}"
    async with Kubelet(folder) as kubelet:
        world = World(short_folder, kubelet)
        for major, name in enumerate(NAMES, 200):
            for number in range(3):
                world.host.plug(f"{name}{number}", major=major)
        async with world.serving(*resources) as daemon:
            for name in NAMES:
                await daemon.registered(f"example.com/{name}")
                await world.listed(f"example.com/{name}", *(f"{name}{n}" for n in range(3)))
            registered = dict(kubelet.observed.registrations)
            for flip in range(4):
                lists = dict(kubelet.observed.lists)
                healthy = {f"{NAMES[0]}{number}" for number in range(3)}
                if flip % 2:
                    world.host.plug(f"{NAMES[0]}1", major=200)
                else:
                    world.host.unplug(f"{NAMES[0]}1")
                    healthy.remove(f"{NAMES[0]}1")
                await world.listed(changed, *healthy)
                await asyncio.sleep(QUIET_SECONDS)
                assert dict(kubelet.observed.lists) == lists | {changed: lists[changed] + 1}
            assert dict(kubelet.observed.registrations) == registered
            assert set(registered.values()) == {1}
