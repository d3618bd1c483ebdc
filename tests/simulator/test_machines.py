"""Containers on machines with near and far devices, through the real daemon.

The topology manager is the simulator's; ``tests/e2e/test_topology.py`` holds it against that of a
real kubelet. What the daemon prefers is held against a search of all choices.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from genericdp.daemon import serve
from genericdp.devices.natural import natural_key
from genericdp.devices.topology import distance
from genericdp.process.run import Commands
from genericdp.settings import Settings
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from genericdp.simulator.settings import Topology, TopologyPolicy
from tests.fixtures.topologies import TOPOLOGIES
from tests.simulator.pods import held_by

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping
    from pathlib import Path

    from genericdp.devices.topology import Spot

SINGLE, RESTRICTED = TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED
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
NUMA_NODES = {"two-sockets": 2, "nps4": 8, "one-unknown-node": 2, "laptop": 1, "hub-tree": 1}
BUSY = (1, 2, 1, 3, 2, 4, 1, 2)
"""How many devices each of several pods asks for that all stay."""


def spots(machine: str, *, nics: bool = False) -> dict[str, Spot]:
    found = TOPOLOGIES[machine]().spots
    names = sorted((one for one in found if ("verbs" in one) == nics), key=natural_key)
    return {name: found[name] for name in names}


def closest(ids: Collection[str], size: int, devices: Mapping[str, Spot]) -> frozenset[str]:
    """Search all choices; of equally good ones the first in the order of the devices."""

    def total(some: Iterable[str]) -> int:
        return sum(distance(devices[a], devices[b]) for a, b in combinations(some, 2))

    return frozenset(min(combinations([one for one in devices if one in ids], size), key=total))


def expected(
    policy: TopologyPolicy, devices: Mapping[str, Spot], free: Collection[str], size: int
) -> frozenset[str] | None:
    """Give what a container is to get; None if its pod is refused.

    The kubelet decides on the nodes: as few as on an idle machine, of several such sets the one
    with the lowest numbers. There the choice is the daemon's.
    """
    if not all(spot.numa_nodes for spot in devices.values()):
        return closest(free, size, devices) if len(free) >= size else None  # all or none: LAW-8
    nodes = sorted({node for spot in devices.values() for node in spot.numa_nodes})
    for count in range(1, len(nodes) + 1):
        sets = sorted(combinations(nodes, count), key=lambda some: some[::-1])
        on = {
            some: {one for one, spot in devices.items() if set(spot.numa_nodes) & set(some)}
            for some in sets
        }
        if any(len(there) >= size for there in on.values()):
            fitting = (on[some] & set(free) for some in sets if len(on[some] & set(free)) >= size)
            there = next(fitting, None)
            if there is None or (policy is SINGLE and count > 1):
                return None
            return closest(there, size, devices)
    return None


class Node:
    """A kubelet with the daemon beside it."""

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
async def running(machine: str, policy: TopologyPolicy, folder: Path) -> AsyncIterator[Node]:
    """Run the daemon on the copied tree of a machine; a kubelet knows its NUMA nodes."""
    TOPOLOGIES[machine]().build(folder / "root")
    (folder / "config.yaml").write_text(CONFIG)
    settings = Settings(
        configs=(folder / "config.yaml",),
        kubelet_folder=folder / "kubelet",
        cdi_folder=folder / "cdi",
        root=folder / "root",
        node_name="node-1",
    )
    topology = Topology(policy=policy, numa_nodes=tuple(range(NUMA_NODES[machine])))
    wanted = {DEVICES: len(spots(machine)), NICS: len(spots(machine, nics=True))}
    async with (
        Kubelet(settings.kubelet_folder, topology=topology) as kubelet,
        Commands() as commands,
        asyncio.TaskGroup() as tasks,
    ):
        work = serve(settings, reload=asyncio.Event(), commands=commands)
        serving = tasks.create_task(work)
        await kubelet.wait_for(
            lambda: {name: kubelet.allocatable(name) for name in wanted} == wanted,
            timeout_seconds=20,
        )
        yield Node(kubelet)
        serving.cancel()


@pytest.mark.parametrize("policy", [SINGLE, RESTRICTED])
@pytest.mark.parametrize("machine", TOPOLOGIES)
async def test_containers_get_the_best_that_the_policy_allows(
    machine: str, policy: TopologyPolicy, short_folder: Path
) -> None:
    """LAW-8, PRF-5: on an idle machine, and beside pods that stay."""
    devices = spots(machine)
    async with running(machine, policy, short_folder) as node:
        for size in (1, 2, 3, 4):
            pod, held = await node.pod(devices=size)
            best = expected(policy, devices, devices.keys(), size)
            assert held == (None if best is None else {DEVICES: best}), f"{size} of all"
            node.kubelet.admitter.remove(pod)
        free = set(devices)
        for size in BUSY:
            _, held = await node.pod(devices=size)
            best = expected(policy, devices, free, size)
            assert held == (None if best is None else {DEVICES: best}), f"{size} of {free}"
            free -= best or set()


async def test_gpus_and_nics_of_a_container_sit_on_one_socket(short_folder: Path) -> None:
    """Each resource is asked for its own best; the kubelet brings them to one socket."""
    gpus, nics = spots("two-sockets"), spots("two-sockets", nics=True)
    async with running("two-sockets", SINGLE, short_folder) as node:
        # The first socket has room for the GPUs, and not for the NICs.
        await node.pod(nics=3)
        _, held = await node.pod(devices=2, nics=2)
        assert held is not None
        second = {one for one, spot in gpus.items() if spot.numa_nodes == (1,)}
        assert held[DEVICES] == closest(second, 2, gpus)
        second = {one for one, spot in nics.items() if spot.numa_nodes == (1,)}
        assert held[NICS] == closest(second, 2, nics)
        _, refused = await node.pod(devices=4, nics=2)
        assert refused is None
