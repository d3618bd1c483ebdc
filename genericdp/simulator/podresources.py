"""The kubelet's pod-resources service: who holds what, to whoever asks, not too often."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc

from genericdp.kubelet.v1 import podresources_pb2 as pb
from genericdp.kubelet.v1 import podresources_pb2_grpc as rpc
from genericdp.simulator.admission import WITHOUT_NUMA_NODE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from genericdp.simulator.admission import Admitter
    from genericdp.simulator.manager import DeviceManager
    from genericdp.simulator.pods import Container, Pod
    from genericdp.simulator.settings import Faults

CALLS_PER_SECOND = 100.0
BURST = 10


class Limiter:
    """A bucket of tokens, as the kubelet has one for all callers of the service."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tokens = float(BURST)
        self._filled_at = now()

    def allows(self) -> bool:
        """Say whether one more call may be answered, and count it."""
        now = self._now()
        gained = (now - self._filled_at) * CALLS_PER_SECOND
        self._tokens = min(BURST, self._tokens + gained)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class PodResources(rpc.PodResourcesListerServicer):
    """Serves ``v1.PodResourcesLister`` from the state of one run of the kubelet (PRS-1)."""

    def __init__(
        self, manager: DeviceManager, admitter: Admitter, *, faults: Faults, awake: asyncio.Event
    ) -> None:
        self._manager = manager
        self._admitter = admitter
        self._faults = faults
        self._awake = awake
        self._limiter = Limiter()

    async def List(  # noqa: N802  # the protocol's name
        self,
        request: pb.ListPodResourcesRequest,  # noqa: ARG002  # it is empty
        context: grpc.aio.ServicerContext[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse],
    ) -> pb.ListPodResourcesResponse:
        """Let go what pods that have ended held, then give all others with what they hold."""
        await self._begin(context)
        pods = self._admitter.known_pods()
        self._admitter.release_ended(self._manager)
        return pb.ListPodResourcesResponse(pod_resources=[self._of(pod) for pod in pods])

    async def GetAllocatableResources(  # noqa: N802
        self,
        request: pb.AllocatableResourcesRequest,  # noqa: ARG002
        context: grpc.aio.ServicerContext[
            pb.AllocatableResourcesRequest, pb.AllocatableResourcesResponse
        ],
    ) -> pb.AllocatableResourcesResponse:
        """Give the healthy devices, held or not."""
        await self._begin(context)
        devices = self._manager.devices
        entries = (
            (name, device_id, devices.listed(name)[device_id].numa_nodes)
            for name, ids in devices.healthy.items()
            for device_id in sorted(ids)
        )
        return pb.AllocatableResourcesResponse(devices=_entries(entries))

    async def Get(  # noqa: N802
        self,
        request: pb.GetPodResourcesRequest,
        context: grpc.aio.ServicerContext[pb.GetPodResourcesRequest, pb.GetPodResourcesResponse],
    ) -> pb.GetPodResourcesResponse:
        """Give what one pod holds."""
        await self._begin(context)
        for pod in self._admitter.known_pods():
            if (pod.name, pod.namespace) == (request.pod_name, request.pod_namespace):
                return pb.GetPodResourcesResponse(pod_resources=self._of(pod))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        await context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError("abort raises")

    async def _begin(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await self._awake.wait()
        self._manager.observed.pod_resources_calls += 1
        self._manager.announce()
        if not self._limiter.allows() or self._faults.refuse_pod_resources:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _of(self, pod: Pod) -> pb.PodResources:
        # Init containers that end are left out, whatever they hold.
        sidecars = (one for one in pod.init_containers if one.restartable)
        return pb.PodResources(
            name=pod.name,
            namespace=pod.namespace,
            containers=[self._of_container(pod, one) for one in (*sidecars, *pod.containers)],
        )

    def _of_container(self, pod: Pod, container: Container) -> pb.ContainerResources:
        held = self._manager.allocations.of_container(pod.uid, container.name)
        entries = (
            (one.resource, device_id, None if node == WITHOUT_NUMA_NODE else (node,))
            for one in held
            for node, ids in one.ids_by_numa.items()
            for device_id in ids
        )
        return pb.ContainerResources(name=container.name, devices=_entries(entries))


def _entries(
    devices: Iterable[tuple[str, str, tuple[int, ...] | None]],
) -> Iterator[pb.ContainerDevices]:
    """Give an entry for each device without topology, and for each NUMA node of the others."""
    for resource, device_id, nodes in devices:
        if nodes is None:
            yield pb.ContainerDevices(resource_name=resource, device_ids=[device_id])
            continue
        for node in nodes:
            topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
            yield pb.ContainerDevices(
                resource_name=resource, device_ids=[device_id], topology=topology
            )
