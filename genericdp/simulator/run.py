"""One process of the kubelet: what exists between its start and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from genericdp.kubelet.v1 import podresources_pb2_grpc
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc
from genericdp.simulator.folder import SOCKET_NAME, SocketFolder
from genericdp.simulator.podresources import PodResources
from genericdp.simulator.registration import Registration
from genericdp.simulator.tasks import Tasks

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from genericdp.simulator.admission import Admitter
    from genericdp.simulator.manager import DeviceManager
    from genericdp.simulator.settings import Faults


class Run:
    """Serves the registration socket and, where it has a path, the pod-resources socket."""

    def __init__(
        self,
        manager: DeviceManager,
        admitter: Admitter,
        *,
        faults: Faults,
        awake: asyncio.Event,
        pod_resources: Path | None,
    ) -> None:
        self.manager = manager
        self.tasks = Tasks()
        self.registration = Registration(manager, tasks=self.tasks, faults=faults, awake=awake)
        self._pod_resources = PodResources(manager, admitter, faults=faults, awake=awake)
        self._at = pod_resources
        self._servers: list[_Server] = []

    async def serve(self) -> None:
        """Begin to answer."""
        registration = _Server(self.manager.folder / SOCKET_NAME)
        deviceplugin_pb2_grpc.add_RegistrationServicer_to_server(
            self.registration, registration.grpc
        )
        await self._start(registration)
        if self._at is not None:
            self._at.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            pods = _Server(self._at)
            podresources_pb2_grpc.add_PodResourcesListerServicer_to_server(
                self._pod_resources, pods.grpc
            )
            await self._start(pods)

    async def stop(self) -> None:
        """End in good order: plugins are disconnected, the sockets' files are removed."""
        for client in self.manager.clients.everyone():
            await self.manager.disconnect(client)
        await self._end()

    async def crash(self) -> None:
        """Die: the files stay and refuse connections."""
        for server in self._servers:
            server.disown()
        await self._end()

    async def _start(self, server: _Server) -> None:
        self._servers.append(server)
        await server.grpc.start()

    async def _end(self) -> None:
        try:
            for server in self._servers:
                await server.grpc.stop(None)
            await self.tasks.stop()
        finally:
            await self.registration.close()
            for server in self._servers:
                server.close()


class _Server:
    """One gRPC server on one socket."""

    def __init__(self, socket: Path) -> None:
        self.grpc = grpc.aio.server()
        self._place = SocketFolder(socket.parent, socket.name)
        self.grpc.add_insecure_port(self._place.target)

    def disown(self) -> None:
        """Leave the socket's file behind."""
        self._place.disown()

    def close(self) -> None:
        """Let the folder go, after the server has stopped."""
        self._place.close()
