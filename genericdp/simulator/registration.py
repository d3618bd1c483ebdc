"""The kubelet's side of Register: check, dial the plugin back, read its list forever."""

from __future__ import annotations

import asyncio
import os.path
from contextlib import aclosing
from typing import TYPE_CHECKING

import grpc

from genericdp.config.names import name_problem
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc as rpc
from genericdp.simulator.client import PluginClient
from genericdp.simulator.goerrors import KubeletError, quoted

if TYPE_CHECKING:
    from genericdp.simulator.manager import DeviceManager
    from genericdp.simulator.settings import Faults
    from genericdp.simulator.tasks import Tasks

VERSION = "v1beta1"


class Registration(rpc.RegistrationServicer):
    """Serves ``v1beta1.Registration`` and owns the connections to the plugins."""

    def __init__(
        self, manager: DeviceManager, *, tasks: Tasks, faults: Faults, awake: asyncio.Event
    ) -> None:
        self._manager = manager
        self._tasks = tasks
        self._faults = faults
        self._awake = awake
        self._connections: list[PluginClient] = []

    async def Register(  # noqa: N802  # the protocol's name
        self,
        request: pb.RegisterRequest,
        context: grpc.aio.ServicerContext[pb.RegisterRequest, pb.Empty],
    ) -> pb.Empty:
        """Answer once the plugin is connected; all failures are ``UNKNOWN`` (REG-8)."""
        await self._awake.wait()
        self._manager.observed.registrations[request.resource_name] += 1
        self._manager.announce()
        work = self._tasks.result_of(self._register(request), name=f"register {request.endpoint}")
        if self._faults.honours_cancel:
            problem = await work
        else:
            problem = await asyncio.shield(work)
        await asyncio.sleep(self._faults.answer_delay_seconds)
        if problem is not None:
            await context.abort(grpc.StatusCode.UNKNOWN, problem)
        return pb.Empty()

    def connections(self, resource: str) -> tuple[PluginClient, ...]:
        """Give all connections of a resource, also those that the books have lost."""
        return tuple(c for c in self._connections if c.resource == resource)

    async def close(self) -> None:
        """Drop all connections, as the end of the process does."""
        for client in self._connections:
            await client.close()
        self._connections.clear()

    async def _register(self, request: pb.RegisterRequest) -> str | None:
        if self._faults.register_hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(self._faults.register_delay_seconds)
        if (problem := self._problem(request)) is not None:
            return problem
        path = joined(str(self._manager.folder), request.endpoint)
        client = PluginClient(resource=request.resource_name, path=path)
        try:
            await self._connect(client)
        except KubeletError as error:
            return str(error)
        self._manager.observed.accepted[client.resource] += 1
        self._manager.announce()
        for _ in range(self._faults.streams_opened):
            name = f"stream of {request.endpoint}"
            self._tasks.start(self._read(client), name=name)
        return None

    def _problem(self, request: pb.RegisterRequest) -> str | None:
        if self._faults.refuse_register is not None:
            return self._faults.refuse_register
        if request.version != VERSION:
            return (
                f"requested API version {quoted(request.version)} is not supported by kubelet."
                f' Supported version is ["{VERSION}"]'
            )
        if name_problem(request.resource_name) is not None:
            return f"the ResourceName {quoted(request.resource_name)} is invalid"
        return None

    async def _connect(self, client: PluginClient) -> None:
        manager = self._manager
        manager.clients.add(client)
        try:
            await client.dial(manager.timing.dial_seconds)
            self._connections.append(client)
            await manager.connect(client)
        except (KubeletError, asyncio.CancelledError):
            # The kubelet removes by key, not by client: whoever is there loses its entry (REG-9c,
            # REG-10). It also leaves the connection open; the end of the run closes it.
            manager.clients.remove(client.resource, client.path)
            raise

    async def _read(self, client: PluginClient) -> None:
        await asyncio.sleep(self._faults.stream_delay_seconds)
        async with aclosing(client.lists()) as lists:
            async for response in lists:
                await self._awake.wait()
                self._manager.take_list(client, response)
        # Again by key: in generation A this may well be another, living plugin (REG-9b).
        current = self._manager.clients.get(client.resource, client.path)
        if current is not None:
            await self._manager.disconnect(current)
        if client.streams == 0 and client in self._connections:
            self._connections.remove(client)
            await client.close()
        self._manager.announce()


def joined(folder: str, endpoint: str) -> str:
    """Join as the kubelet does: an absolute endpoint ends up below the folder too (REG-6)."""
    return os.path.normpath(f"{folder}/{endpoint}")
