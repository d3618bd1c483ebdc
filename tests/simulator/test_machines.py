"""Containers on machines with near and far devices, through the real daemon.

What the daemon prefers is held against a search of all choices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path

import pytest
from genericdp.daemon import serve
from genericdp.devices.inventory import natural_key
from genericdp.devices.topology import Spot, distance
from genericdp.observed import Signal
from genericdp.process.run import Commands
from genericdp.settings import Settings
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from tests.fixtures.topologies import TOPOLOGIES
from tests.simulator.pods import held_by

DEVICES, NICS = "example.com/devices", "example.com/nics"
CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/devices
    match:
      - path: [/dev/dri/*, /dev/nvme*, /dev/accel/*, /dev/video*, /dev/tty*]
  - name: example.com/nics
    match:
      - path: /dev/infiniband/*
"""
BUSY = (1, 2, 1, 3, 2, 2, 1, 2)
"""How many devices each of several pods requests that all stay."""


def spots(machine: str, *, nics: bool = False) -> dict[str, Spot]:
    found = TOPOLOGIES[machine]().spots
    names = sorted((match for match in found if ("verbs" in match) == nics), key=natural_key)
    return {name: found[name] for name in names}


def closest(ids: Collection[str], size: int, devices: Mapping[str, Spot]) -> frozenset[str]:
    """Search all choices; of equally good ones the first in the order of the devices."""

    def total(some: Iterable[str]) -> int:
        return sum(distance(devices[a], devices[b]) for a, b in combinations(some, 2))

    return frozenset(
        min(combinations([device for device in devices if device in ids], size), key=total)
    )


class Node:
    """A kubelet with the daemon next to it."""

    def __init__(self, kubelet: Kubelet) -> None:
        self.kubelet = kubelet
        self._pods = 0

    async def pod(self, **amounts: int) -> tuple[Pod, dict[str, frozenset[str]] | None]:
        """Admit a pod; give what it holds, None if it is refused."""
        self._pods += 1
        limits = {f"example.com/{name}": amount for name, amount in amounts.items()}
        pod = Pod(uid=f"pod-{self._pods}", containers=(Container(name="main", limits=limits),))
        admission = await self.kubelet.admit(pod)
        return pod, held_by(self.kubelet, pod)["main"] if admission.admitted else None


@asynccontextmanager
async def running(machine: str, directory: Path) -> AsyncIterator[Node]:
    """Run the daemon on the copied tree of a machine; a kubelet knows its NUMA nodes."""
    TOPOLOGIES[machine]().build(directory / "root")
    (directory / "config.yaml").write_text(CONFIG)
    settings = Settings(
        configs=(directory / "config.yaml",),
        kubelet_directory=directory / "kubelet",
        cdi_directory=directory / "cdi",
        root=directory / "root",
        node_name="node-1",
    )
    wanted = {DEVICES: len(spots(machine)), NICS: len(spots(machine, nics=True))}
    async with (
        Kubelet(settings.kubelet_directory) as kubelet,
        Commands() as commands,
        asyncio.TaskGroup() as tasks,
    ):
        work = serve(settings, reload=Signal(), commands=commands)
        serving = tasks.create_task(work)
        await kubelet.wait_for(
            lambda: {name: kubelet.allocatable(name) for name in wanted} == wanted,
            timeout_seconds=20,
        )
        yield Node(kubelet)
        serving.cancel()


@pytest.mark.parametrize("machine", TOPOLOGIES)
async def test_containers_get_the_closest_devices_that_are_free(
    machine: str, short_directory: Path
) -> None:
    """On an idle machine, and next to pods that stay."""
    devices = spots(machine)
    async with running(machine, short_directory) as node:
        for size in (1, 2, 3, 4):
            pod, held = await node.pod(devices=size)
            assert held == {DEVICES: closest(devices, size, devices)}, f"{size} of all"
            node.kubelet.admitter.remove(pod)
        free = set(devices)
        for size in BUSY:
            _, held = await node.pod(devices=size)
            best = closest(free, size, devices) if size <= len(free) else None
            assert held == (None if best is None else {DEVICES: best}), f"{size} of {free}"
            free -= best or set()


async def test_each_resource_of_a_container_is_asked_for_its_own_best(
    short_directory: Path,
) -> None:
    gpus, nics = spots("two-sockets"), spots("two-sockets", nics=True)
    async with running("two-sockets", short_directory) as node:
        _, held = await node.pod(devices=2, nics=3)
        assert held == {DEVICES: closest(gpus, 2, gpus), NICS: closest(nics, 3, nics)}
