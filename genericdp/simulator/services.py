"""The kubelet's gRPC services, Registration and PodResources."""

from __future__ import annotations

import asyncio
import json
import os.path
from contextlib import aclosing
from typing import TYPE_CHECKING

import grpc

from genericdp.devices.resourcenames import name_problem
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from genericdp.kubelet.api import podresources_pb2, podresources_pb2_grpc
from genericdp.simulator.client import PluginClient, SimulatedKubeletError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from genericdp.simulator.admission import Admitter
    from genericdp.simulator.devicemanager import DeviceManager
    from genericdp.simulator.pods import Container, Pod
    from genericdp.simulator.settings import Faults

VERSION = "v1beta1"


class RegistrationService(rpc.RegistrationServicer):
    """Serves ``v1beta1.Registration`` and owns the connections to the plugins.

    ``start_task`` starts a background task with a name. While ``awake`` is clear, nothing is done.
    """

    def __init__(
        self,
        manager: DeviceManager,
        *,
        start_task: Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[Any]],
        faults: Faults,
        awake: asyncio.Event,
    ) -> None:
        self._manager = manager
        self._start_task = start_task
        self._faults = faults
        self._awake = awake
        self._connections: list[PluginClient] = []

    async def Register(  # noqa: N802  # the protocol's name
        self,
        request: pb.RegisterRequest,
        context: grpc.aio.ServicerContext[pb.RegisterRequest, pb.Empty],
    ) -> pb.Empty:
        """Return once the plugin is connected; every failure is ``UNKNOWN`` (REG-8)."""
        await self._awake.wait()
        self._manager.observed.registrations[request.resource_name] += 1
        self._manager.announce()
        work = self._start_task(self._register(request), f"register {request.endpoint}")
        problem = await (work if self._faults.honours_cancel else asyncio.shield(work))
        await asyncio.sleep(self._faults.answer_delay_seconds)
        if problem:
            await context.abort(grpc.StatusCode.UNKNOWN, problem)
        return pb.Empty()

    def connections(self, resource: str) -> tuple[PluginClient, ...]:
        """Return all connections for a resource, even those that the kubelet has lost track of."""
        return tuple(client for client in self._connections if client.resource == resource)

    async def close(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, []
        for client in connections:
            await client.close()

    async def _register(self, request: pb.RegisterRequest) -> str:
        """Register a plugin; return the error, or an empty string."""
        await asyncio.sleep(self._faults.register_delay_seconds)
        # As the kubelet joins them: an absolute endpoint ends up below the directory, too (REG-6).
        path = os.path.normpath(f"{self._manager.directory}/{request.endpoint}")  # noqa: ASYNC240
        client = PluginClient(resource=request.resource_name, path=path)
        try:
            self._check(request)
            await self._connect(client)
        except SimulatedKubeletError as error:
            return str(error)
        self._manager.observed.accepted[client.resource] += 1
        self._manager.announce()
        _ = self._start_task(self._read(client), f"stream of {request.endpoint}")
        return ""

    def _check(self, request: pb.RegisterRequest) -> None:
        if self._faults.refuse_register is not None:
            raise SimulatedKubeletError(self._faults.refuse_register)
        if request.version != VERSION:
            raise SimulatedKubeletError(
                f"requested API version {_quoted(request.version)} is not supported by kubelet."
                f' Supported version is ["{VERSION}"]'
            )
        if name_problem(request.resource_name) is not None:
            raise SimulatedKubeletError(
                f"the ResourceName {_quoted(request.resource_name)} is invalid"
            )

    async def _connect(self, client: PluginClient) -> None:
        manager = self._manager
        manager.plugins.add(client)
        try:
            await client.dial(manager.timing.dial_seconds)
            self._connections.append(client)
            await manager.connect(client)
        except (SimulatedKubeletError, asyncio.CancelledError):
            # The kubelet removes by key, not by client, so another plugin may lose its entry
            # (REG-9c, REG-10). It also leaves the connection open until it ends.
            manager.plugins.remove(client)
            raise

    async def _read(self, client: PluginClient) -> None:
        await asyncio.sleep(self._faults.stream_delay_seconds)
        async with aclosing(client.lists()) as lists:
            async for response in lists:
                await self._awake.wait()
                self._manager.set_list(client, response)
        # By key again: in generation A this may be another plugin, which lives (REG-9b).
        current = self._manager.plugins.find(client)
        if current is not None:
            await self._manager.disconnect(current)
        if not client.streams and client in self._connections:
            self._connections.remove(client)
            await client.close()
        self._manager.announce()


def _quoted(text: str) -> str:
    """Quote a string as Go's ``%q`` does."""
    return json.dumps(text, ensure_ascii=False)


class PodResources(podresources_pb2_grpc.PodResourcesListerServicer):
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
        request: podresources_pb2.ListPodResourcesRequest,  # noqa: ARG002  # it is empty
        context: grpc.aio.ServicerContext[
            podresources_pb2.ListPodResourcesRequest, podresources_pb2.ListPodResourcesResponse
        ],
    ) -> podresources_pb2.ListPodResourcesResponse:
        """Free the devices of pods that have ended; return all others with their devices."""
        await self._awake.wait()
        self._manager.observed.pod_resources_calls += 1
        self._manager.announce()
        if self._faults.refuse_pod_resources:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        pods = self._admitter.known_pods()
        self._admitter.release_ended(self._manager)
        return podresources_pb2.ListPodResourcesResponse(pod_resources=map(self._pod, pods))

    def _pod(self, pod: Pod) -> podresources_pb2.PodResources:
        containers = [self._container(pod, container) for container in pod.containers]
        return podresources_pb2.PodResources(
            name=pod.uid, namespace="default", containers=containers
        )

    def _container(self, pod: Pod, container: Container) -> podresources_pb2.ContainerResources:
        devices = [
            podresources_pb2.ContainerDevices(
                resource_name=allocation.resource, device_ids=[device_id]
            )
            for allocation in self._manager.allocated_to(pod.uid, container.name)
            for device_id in allocation.ids
        ]
        claims = [
            podresources_pb2.DynamicResource(claim_namespace="default", claim_name=name)
            for name in container.claims
        ]
        return podresources_pb2.ContainerResources(
            name=container.name, devices=devices, dynamic_resources=claims
        )
