"""Admission of pods: choice and allocation of devices; and container starts."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from genericdp.devices.device import BindMount, ContainerEdits, DeviceSpec
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.simulator.client import SimulatedKubeletError
from genericdp.simulator.devicemanager import Allocation
from genericdp.simulator.pods import Admission, Start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.simulator.devicemanager import DeviceManager
    from genericdp.simulator.pods import Container, Pod


class Admitter:
    """Admits pods one at a time and starts their containers; knows which pods are active.

    The active pods outlive the kubelet, as they do in the API server.
    """

    def __init__(self) -> None:
        self.sources_ready = True
        """False if the kubelet has just started and does not know all of its pods yet (KST-6)."""
        self._one_at_a_time = asyncio.Lock()
        self._active: dict[str, Pod] = {}
        self.manager: DeviceManager | None = None
        """The device manager of the running kubelet; None if none runs."""

    def remove(self, pod: Pod) -> None:
        """Remove a pod from the active ones; its devices stay allocated for now (ALL-3)."""
        self._active.pop(pod.uid, None)

    async def admit(self, pod: Pod) -> Admission:
        """Allocate for one container after another; the first error rejects."""
        manager = self._running()
        async with self._one_at_a_time:
            self._active[pod.uid] = pod
            try:
                for container in pod.containers:
                    await self._allocate(manager, pod, container)
            except SimulatedKubeletError as error:
                self.remove(pod)
                return Admission(
                    admitted=False,
                    reason="UnexpectedAdmissionError",
                    message=f"Allocate failed due to {error}, which is unexpected",
                )
        return Admission(admitted=True)

    async def start(self, pod: Pod, container: Container) -> Start:
        """Call PreStartContainer where it is required; return the merged container edits."""
        manager = self._running()
        held = list(manager.allocated_to(pod.uid, container.name))
        random.shuffle(held)
        try:
            for hold in held:
                await _pre_start(manager, hold)
        except SimulatedKubeletError as error:
            return Start(given=None, reason="CreateContainerConfigError", message=str(error))
        return Start(given=_merged(hold.response for hold in held))

    def release_ended(self, manager: DeviceManager) -> None:
        """Free the devices of pods that are no longer active; no call reports that (ALL-3)."""
        if self.sources_ready:
            manager.release_all_but(self._active)

    def known_pods(self) -> tuple[Pod, ...]:
        """Return the active pods that the kubelet knows."""
        return tuple(self._active.values()) if self.sources_ready else ()

    def _running(self) -> DeviceManager:
        if self.manager is None:
            raise RuntimeError("the kubelet is not running")
        return self.manager

    async def _allocate(self, manager: DeviceManager, pod: Pod, container: Container) -> None:
        changed = False
        for resource in _shuffled(container.limits):
            if resource not in manager.healthy:
                continue
            self.release_ended(manager)
            if ids := await _pick(manager, resource, container.limits[resource]):
                response = await _ask(manager, resource, ids)
                allocation = Allocation(
                    pod_uid=pod.uid,
                    container=container.name,
                    resource=resource,
                    ids=frozenset(ids),
                    response=response,
                )
                manager.allocations.append(allocation)
                changed = True
        if changed:
            manager.save()


def _shuffled(ids: Iterable[str]) -> list[str]:
    """Return strings in random order, as Go's maps give them."""
    mixed = sorted(ids)
    random.shuffle(mixed)
    return mixed


async def _pick(manager: DeviceManager, resource: str, amount: int) -> set[str]:
    """Reserve and return the IDs for Allocate."""
    healthy = manager.healthy[resource]
    if not healthy:  # an error even if nothing is requested (ALL-9)
        raise SimulatedKubeletError(
            f"no healthy devices present; cannot allocate unhealthy devices {resource}"
        )
    if amount == 0:
        return set()
    reserved = manager.reserved.setdefault(resource, set())
    free = frozenset(healthy - reserved)
    if len(free) < amount:
        raise SimulatedKubeletError(
            f"requested number of devices unavailable for {resource}."
            f" Requested: {amount}, Available: {len(free)}"
        )
    # If the plugin prefers too few, others are taken at random; if too many, a random part of them
    # is (PRF-3).
    preferred = await _preferred(manager, resource, amount, free)
    ids = {*[*_shuffled(preferred & free), *_shuffled(free - preferred)][:amount]}
    reserved.update(ids)
    return ids


async def _preferred(
    manager: DeviceManager, resource: str, amount: int, free: frozenset[str]
) -> frozenset[str]:
    """Ask the plugin which devices it prefers, if its options say so (PRF-1)."""
    endpoint = manager.plugins.current[resource]
    if endpoint.options is None or not endpoint.options.get_preferred_allocation_available:
        return frozenset()
    asked = pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=_shuffled(free), allocation_size=amount
    )
    try:
        client = endpoint.live_client()
        call = client.plugin.GetPreferredAllocation(
            pb.PreferredAllocationRequest(container_requests=[asked])
        )
        response = await client.ask(call)
    except SimulatedKubeletError as error:
        text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
        raise SimulatedKubeletError(text) from None
    answers = response.container_responses
    return frozenset(answers[0].deviceIDs) if answers else frozenset()


async def _ask(
    manager: DeviceManager, resource: str, ids: set[str]
) -> pb.ContainerAllocateResponse:
    """Call Allocate, without a timeout (ALL-4)."""
    asked = pb.ContainerAllocateRequest(devices_ids=_shuffled(ids))
    try:
        client = manager.plugins.current[resource].live_client()
        call = client.plugin.Allocate(pb.AllocateRequest(container_requests=[asked]))
        response = await client.ask(call)
    except SimulatedKubeletError:
        manager.free_unallocated()
        raise
    if not response.container_responses:
        # The kubelet forgets about the IDs, which stay reserved until another pod goes (ALL-2).
        text = f"no containers return in allocation response {str(response).strip()}"
        raise SimulatedKubeletError(text)
    return response.container_responses[0]


async def _pre_start(manager: DeviceManager, allocation: Allocation) -> None:
    endpoint = manager.plugins.current[allocation.resource]
    # After a restart of the kubelet the options are unknown and nothing is called (KST-8).
    if endpoint.options is None or not endpoint.options.pre_start_required:
        return
    request = pb.PreStartContainerRequest(devices_ids=_shuffled(allocation.ids))
    try:
        client = endpoint.live_client()
        call = client.plugin.PreStartContainer(request, timeout=manager.timing.prestart_seconds)
        await client.ask(call)
    except SimulatedKubeletError as error:
        text = f"device plugin PreStartContainer rpc failed with err: {error}"
        raise SimulatedKubeletError(text) from None


def _merged(responses: Iterable[pb.ContainerAllocateResponse]) -> ContainerEdits:
    """Merge container edits; of two that differ, the first one wins silently (ALL-6)."""
    devices: dict[str, DeviceSpec] = {}
    mounts: dict[str, BindMount] = {}
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    cdi: dict[str, None] = {}
    for response in responses:
        for device in response.devices:
            node = DeviceSpec(
                host_path=device.host_path,
                container_path=device.container_path,
                permissions=device.permissions,
            )
            devices.setdefault(device.container_path, node)
        for mount in response.mounts:
            bind = BindMount(
                host_path=mount.host_path,
                container_path=mount.container_path,
                read_only=mount.read_only,
            )
            mounts.setdefault(mount.container_path, bind)
        env = {**response.envs, **env}
        annotations = {**response.annotations, **annotations}
        cdi.update((cdi_device.name, None) for cdi_device in response.cdi_devices)
    return ContainerEdits(
        devices=tuple(devices.values()),
        mounts=tuple(mounts.values()),
        env=env,
        annotations=annotations,
        cdi=tuple(cdi),
    )
