"""Pods come and go: allocation at admission, PreStartContainer before each start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.simulator.aligning import align
from genericdp.simulator.allocations import Allocation, merged
from genericdp.simulator.goerrors import KubeletError
from genericdp.simulator.picking import Need, pick, shuffled
from genericdp.simulator.pods import Admission, Start

if TYPE_CHECKING:
    from random import Random

    from genericdp.simulator.client import PluginClient
    from genericdp.simulator.manager import DeviceManager
    from genericdp.simulator.pods import Container, Pod

WITHOUT_NUMA_NODE = -1

UNALIGNED = Admission(
    admitted=False,
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)

Ids = dict[str, set[str]]
"""Device ids by resource."""


class Admitter:
    """Admits pods one after the other and starts their containers; knows which pods are active.

    The active pods outlive the kubelet, as they do in the API server.
    """

    def __init__(self, order: Random, *, prestart_seconds: float) -> None:
        self.sources_ready = True
        """False: the kubelet has just started and has not heard of all pods yet (KST-6)."""
        self._order = order
        self._prestart_seconds = prestart_seconds
        self._one_at_a_time = asyncio.Lock()
        self._active: dict[str, Pod] = {}
        self._running: set[tuple[str, str]] = set()
        self._running_at_start: frozenset[tuple[str, str]] = frozenset()
        self._manager: DeviceManager | None = None

    def attach(self, manager: DeviceManager) -> None:
        """Work for a kubelet that has just started."""
        self._manager = manager
        self._running_at_start = frozenset(self._running)

    def detach(self) -> None:
        """The kubelet has ended."""
        self._manager = None

    def remove(self, pod: Pod) -> None:
        """Take a pod out of the active ones; nothing else happens now (ALL-3)."""
        self._active.pop(pod.uid, None)
        self._running = {key for key in self._running if key[0] != pod.uid}

    async def admit(self, pod: Pod) -> Admission:
        """Align and allocate for init containers, then for the others; the first error refuses."""
        manager = self._managed()
        async with self._one_at_a_time:
            self._active[pod.uid] = pod
            reusable: Ids = {}
            try:
                for container in (*pod.init_containers, *pod.containers):
                    if not self._align(manager, pod, container, reusable):
                        self.remove(pod)
                        return UNALIGNED
                    await self._allocate(manager, pod, container, reusable)
            except KubeletError as error:
                self.remove(pod)
                return Admission(
                    admitted=False,
                    reason="UnexpectedAdmissionError",
                    message=f"Allocate failed due to {error}, which is unexpected",
                )
        return Admission(admitted=True)

    async def start(self, pod: Pod, container: Container) -> Start:
        """Prepare the devices of a container and give what its plugins answered for it."""
        manager = self._managed()
        try:
            await self._prepare(manager, pod, container)
        except KubeletError as error:
            return Start(given=None, reason="CreateContainerConfigError", message=str(error))
        self._running.add((pod.uid, container.name))
        allocations = list(manager.allocations.of_container(pod.uid, container.name))
        self._order.shuffle(allocations)
        return Start(given=merged(a.response for a in allocations))

    def release_ended(self, manager: DeviceManager) -> None:
        """Free what pods hold that are active no more; nobody tells the kubelet to (ALL-3)."""
        if not self.sources_ready:
            return
        ended = manager.allocations.pods() - self._active.keys()
        if ended:
            manager.allocations.release(ended)
            manager.reserved = manager.allocations.by_resource()

    def known_pods(self) -> tuple[Pod, ...]:
        """Give the active pods, as far as the kubelet has heard of them."""
        return tuple(self._active.values()) if self.sources_ready else ()

    def held(self, pod: Pod) -> dict[str, dict[str, frozenset[str]]]:
        """Give what each container of a pod holds, by resource."""
        manager = self._managed()
        return {
            container.name: {
                allocation.resource: allocation.ids
                for allocation in manager.allocations.of_container(pod.uid, container.name)
            }
            for container in (*pod.init_containers, *pod.containers)
        }

    def health_status(self, pod: Pod) -> dict[str, dict[str, dict[str, str]]]:
        """Give ``allocatedResourcesStatus`` of each container of a pod."""
        health = self._managed().devices.reported_health
        return {
            container: {
                resource: {device_id: health(resource, device_id) for device_id in ids}
                for resource, ids in resources.items()
            }
            for container, resources in self.held(pod).items()
        }

    def _managed(self) -> DeviceManager:
        if self._manager is None:
            raise RuntimeError("the kubelet is not running")
        return self._manager

    async def _prepare(self, manager: DeviceManager, pod: Pod, container: Container) -> None:
        missing = False
        for resource in shuffled(container.limits, self._order):
            if not _is_known(manager, resource) or container.limits[resource] == 0:
                continue
            await self._pre_start(manager, pod, container, resource)
            held = manager.allocations.ids(pod.uid, container.name, resource)
            missing = missing or (held is None and pod.uid in self._active)
        if missing:
            await self._allocate(manager, pod, container, {})

    async def _pre_start(
        self, manager: DeviceManager, pod: Pod, container: Container, resource: str
    ) -> None:
        endpoint = manager.endpoints.current.get(resource)
        if endpoint is None:
            text = f"endpoint not found in cache for a registered resource: {resource}"
            raise KubeletError(text)
        # Unknown options after a restart of the kubelet: the call is skipped in silence (KST-8).
        if endpoint.options is None or not endpoint.options.pre_start_required:
            return
        held = manager.allocations.ids(pod.uid, container.name, resource)
        if held is None:
            raise KubeletError(
                f"no devices found allocated in local cache for pod {pod.uid},"
                f" container {container.name}, resource {resource}"
            )
        request = pb.PreStartContainerRequest(devices_ids=shuffled(held, self._order))
        manager.observed.call("PreStartContainer", resource, request.devices_ids)
        try:
            client = endpoint.live_client()
            call = client.plugin.PreStartContainer(request, timeout=self._prestart_seconds)
            await client.ask(call)
        except KubeletError as error:
            text = f"device plugin PreStartContainer rpc failed with err: {error}"
            raise KubeletError(text) from None

    def _align(self, manager: DeviceManager, pod: Pod, container: Container, reusable: Ids) -> bool:
        self.release_ended(manager)
        amounts = {name: n for name, n in container.limits.items() if _is_known(manager, name)}
        return align(manager, pod.uid, container.name, amounts=amounts, reusable=reusable)

    async def _allocate(
        self, manager: DeviceManager, pod: Pod, container: Container, reusable: Ids
    ) -> None:
        """Allocate for one container; keep book of what later containers may use again."""
        changed = False
        for resource in shuffled(container.limits, self._order):
            if not _is_known(manager, resource):
                continue
            self.release_ended(manager)
            need = Need(
                pod_uid=pod.uid,
                container=container.name,
                resource=resource,
                amount=container.limits[resource],
            )
            changed = await self._allocate_one(manager, need, reusable) or changed
        if changed:
            manager.save()
        is_init = container in pod.init_containers and not container.restartable
        for allocation in manager.allocations.of_container(pod.uid, container.name):
            ids = reusable.setdefault(allocation.resource, set())
            # What an init container had is free for the next ones; what a container keeps is not.
            (ids.update if is_init else ids.difference_update)(allocation.ids)

    async def _allocate_one(self, manager: DeviceManager, need: Need, reusable: Ids) -> bool:
        key = need.pod_uid, need.container
        if not self.sources_ready and key in self._running_at_start:
            return False
        again = reusable.get(need.resource, set())
        ids = await pick(manager, need, reusable=again, order=self._order)
        if not ids:
            return False
        response = await self._ask(manager, need, shuffled(ids, self._order))
        by_numa: dict[int, tuple[str, ...]] = {}
        for device_id in sorted(ids):
            nodes = manager.devices.numa_nodes(need.resource, device_id)
            for node in nodes or (WITHOUT_NUMA_NODE,):
                by_numa[node] = (*by_numa.get(node, ()), device_id)
        manager.allocations.insert(
            Allocation(
                pod_uid=need.pod_uid,
                container=need.container,
                resource=need.resource,
                ids_by_numa=by_numa,
                response=response,
            )
        )
        return True

    async def _ask(
        self, manager: DeviceManager, need: Need, ids: list[str]
    ) -> pb.ContainerAllocateResponse:
        request = pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)]
        )
        manager.observed.call("Allocate", need.resource, ids)
        try:
            client = _client(manager, need.resource)
            response = await client.ask(client.plugin.Allocate(request))
        except KubeletError:
            manager.reserved = manager.allocations.by_resource()
            raise
        if not response.container_responses:
            # The ids stay reserved until some other pod goes: the kubelet forgets them (ALL-2).
            text = f"no containers return in allocation response {str(response).strip()}"
            raise KubeletError(text)
        return response.container_responses[0]


def _is_known(manager: DeviceManager, resource: str) -> bool:
    """Say whether a resource is a device plugin's; others are not this manager's business."""
    return resource in manager.devices.healthy or resource in manager.reserved


def _client(manager: DeviceManager, resource: str) -> PluginClient:
    endpoint = manager.endpoints.current.get(resource)
    if endpoint is None:
        raise KubeletError(f"unknown Device Plugin {resource}")
    return endpoint.live_client()
