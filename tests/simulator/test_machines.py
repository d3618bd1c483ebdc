"""Containers on a machine with near and far devices, through the real daemon."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from pathlib import Path

import pytest
from genericdp.devices.inventory import natural_key
from genericdp.devices.topology import Spot, distance
from genericdp.simulator.kubelet import Kubelet
from tests.fixtures.topologies import TOPOLOGIES
from tests.simulator.node import pod
from tests.world import World, resource

GPUS, NICS = "example.com/gpus", "example.com/nics"
MACHINE = "two-sockets"
BUSY = (1, 2, 1, 3, 2, 2, 1, 2)
"""How many GPUs each of several pods requests that all stay."""


def spots(*, nics: bool) -> dict[str, Spot]:
    found = TOPOLOGIES[MACHINE]().spots
    names = sorted((name for name in found if ("verbs" in name) == nics), key=natural_key)
    return {name: found[name] for name in names}


def closest(ids: Collection[str], size: int, devices: Mapping[str, Spot]) -> set[str]:
    """Search all choices; of equally good ones the first in the order of the devices."""

    def total(some: Iterable[str]) -> int:
        return sum(distance(devices[a], devices[b]) for a, b in combinations(some, 2))

    return set(min(combinations([device for device in devices if device in ids], size), key=total))


async def held(kubelet: Kubelet, uid: str, **amounts: int) -> dict[str, set[str]] | None:
    """Admit a pod; give what it holds, None if it is refused."""
    if not (await kubelet.admit(pod(uid, **amounts))).admitted:
        return None
    manager = kubelet.admitter.manager
    assert manager is not None
    return {held.resource: set(held.ids) for held in manager.allocated_to(uid, "main")}


@pytest.fixture
def world(short_directory: Path) -> World:
    world = World(short_directory)
    TOPOLOGIES[MACHINE]().build(world.host.directory)
    return world


async def test_containers_get_the_closest_devices_that_are_free(world: World) -> None:
    gpus, nics = spots(nics=False), spots(nics=True)
    resources = resource(GPUS, "/dev/nvidia*", "/dev/dri/*"), resource(NICS, "/dev/infiniband/*")
    async with world.kubelet, world.serving(*resources):
        await world.listed(GPUS, *gpus)
        await world.listed(NICS, *nics)
        free = set(gpus)
        for number, size in enumerate(BUSY):
            best = {GPUS: closest(free, size, gpus)} if size <= len(free) else None
            assert await held(world.kubelet, f"pod-{number}", gpus=size) == best
            free -= (best or {GPUS: set()})[GPUS]
        both = await held(world.kubelet, "both", nics=3)
        assert both == {NICS: closest(nics, 3, nics)}
