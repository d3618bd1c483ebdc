"""The kubelet's PodResources API, as far as genericdp asks it: which pod holds which devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from genericdp.kubelet.v1 import podresources_pb2 as pb
from genericdp.kubelet.v1 import podresources_pb2_grpc as rpc
from genericdp.simulator.devicemanager import WITHOUT_NUMA_NODE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from genericdp.simulator.admission import Admitter
    from genericdp.simulator.devicemanager import Allocation, DeviceManager
    from genericdp.simulator.pods import Container, Pod
    from genericdp.simulator.settings import Faults


class PodResources(rpc.PodResourcesListerServicer):
    """Serves ``v1.PodResourcesLister`` from the state of one run of the kubelet (PRS-1)."""

    def __init__(
        self, manager: DeviceManager, admitter: Admitter, *, faults: Faults, awake: asyncio.Event
    ) -> None:
        self._manager = manager
        self._admitter = admitter
        self._faults = faults
        self._awake = awake

    async def List(  # noqa: N802  # the protocol's name
        self,
        request: pb.ListPodResourcesRequest,  # noqa: ARG002  # it is empty
        context: grpc.aio.ServicerContext[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse],
    ) -> pb.ListPodResourcesResponse:
        """Free the devices of pods that have ended; return all others with their devices."""
        await self._awake.wait()
        self._manager.observed.pod_resources_calls += 1
        self._manager.announce()
        if self._faults.refuse_pod_resources:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        pods = self._admitter.known_pods()
        self._admitter.release_ended(self._manager)
        return pb.ListPodResourcesResponse(pod_resources=map(self._pod, pods))

    def _pod(self, pod: Pod) -> pb.PodResources:
        # Init containers that end are left out, whatever they hold.
        sidecars = (one for one in pod.init_containers if one.restartable)
        return pb.PodResources(
            name=pod.name,
            namespace=pod.namespace,
            containers=[self._container(pod, one) for one in (*sidecars, *pod.containers)],
        )

    def _container(self, pod: Pod, container: Container) -> pb.ContainerResources:
        held = self._manager.allocated_to(pod.uid, container.name)
        devices = [entry for allocation in held for entry in _entries(allocation)]
        return pb.ContainerResources(name=container.name, devices=devices)


def _entries(allocation: Allocation) -> Iterator[pb.ContainerDevices]:
    """Yield an entry for each device and NUMA node."""
    for node, ids in allocation.ids_by_numa.items():
        nodes = [] if node == WITHOUT_NUMA_NODE else [pb.NUMANode(ID=node)]
        topology = pb.TopologyInfo(nodes=nodes) if nodes else None
        for device_id in ids:
            yield pb.ContainerDevices(
                resource_name=allocation.resource, device_ids=[device_id], topology=topology
            )
