"""Topologies, good and bad, and pods that ask for them, on a real kubelet and on the simulated one.

Plugins that answer for themselves stand for the daemon, which would never tell some of this.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.simulator.pods import Container
from genericdp.simulator.pods import Pod as SimulatedPod
from tests.e2e.cluster import listing
from tests.e2e.cluster.pods import Pod
from tests.e2e.cluster.waiting import eventually
from tests.simulator.bare_plugin import BarePlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from genericdp.simulator.kubelet import Kubelet
    from tests.e2e.cluster.node import Node

Limits = dict[str, int]
NUMA_NODES = (0, 1)
DEVICES: dict[str, dict[str, tuple[int, ...] | None]] = {
    "pairs": {"a": (0,), "b": (0,), "c": (1,), "d": (1,)},
    "several": {"a": (0, 1), "b": (1,), "c": (0,)},
    "minus": {"a": (-1,), "b": (-1,)},
    "unknown": {"a": (7,)},
    "mixed": {"a": (0,), "b": None},
    "empty": {"a": (), "b": (0,)},
    "plain": {"a": None, "b": None},
    "large": {"a": (0,), "b": (0,), "c": (1,), "d": (1,)},
    "odd": {"a": (0,), "b": (0,), "c": (1,)},
    "left": {"a": (0,), "b": (1,), "c": (1,)},
    "right": {"a": (0,)},
}
"""Resource → id → NUMA nodes; None: without a topology."""
PODS: dict[str, Limits] = {
    "one of two on a node": {"pairs": 1},
    "all that a node has": {"pairs": 2},
    "more than is free": {"pairs": 2},
    "on -1": {"minus": 1},
    "on a node that is unknown": {"unknown": 1},
    "more than have a topology": {"mixed": 2},
    "an empty topology among them": {"empty": 1},
    "without topology": {"plain": 1},
    "two resources that meet on a node": {"several": 2, "pairs": 1},
    "more than a node has": {"large": 3},
    "one of an odd number": {"odd": 1},
    "what one node would have were it idle": {"odd": 2},
    "two resources whose nodes differ": {"left": 2, "right": 1},
}
"""In this order, and each keeps what it gets."""


class LowestPlugin(BarePlugin):
    """Prefers the first ids of all, so that nothing is left to chance; notes all it is asked."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, resource=f"example.com/topology-{name}")
        self.asked: list[str] = []
        self.answers.preferred_available = True
        self.send([_device(i, nodes) for i, nodes in DEVICES[name].items()])

    async def GetPreferredAllocation(
        self, request: pb.PreferredAllocationRequest, context: Any
    ) -> pb.PreferredAllocationResponse:
        (one,) = request.container_requests
        must, free = set(one.must_include_deviceIDs), set(one.available_deviceIDs)
        self.asked.append(f"prefer {one.allocation_size} of {_text(free)} with {_text(must)}")
        ids = [*sorted(must), *sorted(free - must)][: one.allocation_size]
        answer = pb.ContainerPreferredAllocationResponse(deviceIDs=ids)
        return pb.PreferredAllocationResponse(container_responses=[answer])

    async def Allocate(self, request: pb.AllocateRequest, context: Any) -> pb.AllocateResponse:
        self.asked.append(f"allocate {_text(request.container_requests[0].devices_ids)}")
        return await super().Allocate(request, context)


class Judge(Protocol):
    """A kubelet that admits or refuses."""

    @property
    def folder(self) -> Path:
        """Where its socket is."""

    async def listed(self, plugin: LowestPlugin, count: int) -> None:
        """Wait until it lists so many devices."""

    async def verdict(self, limits: Limits) -> str:
        """Give empty text for a pod that it admits, else its words."""


class RealJudge(Judge):
    """The node of the test; leaving the context ends the pods."""

    def __init__(self, node: Node, folder: Path) -> None:
        self._node = node
        self._folder = folder
        self._pods: list[Pod] = []
        self._ends = ExitStack()

    def __enter__(self) -> RealJudge:
        return self

    def __exit__(self, *_: object) -> None:
        # All at once: one after the other takes 2 s for each.
        for pod in self._pods:
            pod.withdraw()
        self._ends.close()

    @property
    def folder(self) -> Path:
        return self._folder

    async def listed(self, plugin: LowestPlugin, count: int) -> None:
        def ids() -> frozenset[str]:
            return listing.registered().get(plugin.resource, frozenset())

        what = f"{count} of {plugin.resource} in the checkpoint"
        await asyncio.to_thread(eventually, ids, lambda found: len(found) == count, what=what)

    async def verdict(self, limits: Limits) -> str:
        pod = self._ends.enter_context(Pod(self._node, "topology", limits))
        self._pods.append(pod)

        def judged(state: Mapping[str, Any]) -> bool:
            containers = state.get("containerStatuses", ())
            return state.get("phase") == "Failed" or any(
                c["state"].get("running") for c in containers
            )

        state = await asyncio.to_thread(eventually, pod.state, judged, what="the pod is judged")
        if state["phase"] != "Failed":
            return ""
        return f"{state['reason']}: {state['message'].removeprefix('Pod was rejected: ')}"


class SimulatedJudge(Judge):
    """The simulator."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._pods = 0

    @property
    def folder(self) -> Path:
        return self._kubelet.folder

    async def listed(self, plugin: LowestPlugin, count: int) -> None:
        await self._kubelet.wait_for(lambda: self._kubelet.capacity(plugin.resource) == count)

    async def verdict(self, limits: Limits) -> str:
        self._pods += 1
        container = Container(name="look", limits=limits)
        pod = SimulatedPod(uid=f"pod-{self._pods}", containers=(container,))
        admission = await self._kubelet.admit(pod)
        return "" if admission.admitted else f"{admission.reason}: {admission.message}"


async def judgements(judge: Judge) -> dict[str, list[str]]:
    """Run all pods; give for each what its plugins were asked, and the kubelet's words."""
    said: dict[str, list[str]] = {}
    async with _plugins(judge) as plugins:
        for title, amounts in PODS.items():
            wanted = {plugins[name].resource: amount for name, amount in amounts.items()}
            words = await judge.verdict(wanted)
            asked = (f"{name}: {what}" for name in sorted(amounts) for what in plugins[name].asked)
            said[title] = [*asked, *([words] if words else [])]
            for name in amounts:
                plugins[name].asked.clear()
    return said


@asynccontextmanager
async def _plugins(judge: Judge) -> AsyncIterator[dict[str, LowestPlugin]]:
    async with AsyncExitStack() as ends:
        plugins = {name: LowestPlugin(judge.folder, name) for name in DEVICES}
        for name, plugin in plugins.items():
            await plugin.start()
            ends.push_async_callback(plugin.stop)
            await plugin.register()
            # A topology alone makes no device healthy or not: all are.
            await judge.listed(plugin, len(DEVICES[name]))
        yield plugins


def _device(device_id: str, nodes: tuple[int, ...] | None) -> pb.Device:
    topology = None if nodes is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=n) for n in nodes])
    return pb.Device(ID=device_id, health="Healthy", topology=topology)


def _text(ids: Iterable[str]) -> str:
    return "".join(sorted(ids)) or "none"
