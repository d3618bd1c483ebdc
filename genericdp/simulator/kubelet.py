"""The simulated kubelet: can be started, stopped or crashed, admits pods, and reports its state."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from genericdp.kubelet.api import deviceplugin_pb2_grpc, podresources_pb2_grpc
from genericdp.observed import Signal, until
from genericdp.simulator.admission import Admitter
from genericdp.simulator.devicemanager import DeviceManager, Plugins, Record
from genericdp.simulator.services import PodResources, RegistrationService
from genericdp.simulator.settings import Faults, Generation, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Self

    from genericdp.simulator.client import PluginClient
    from genericdp.simulator.pods import Admission, Container, Pod, Start

log = logging.getLogger(__name__)


class Kubelet:
    """A kubelet that can be started and ended any number of times; pods stay."""

    def __init__(
        self,
        directory: Path,
        *,
        generation: Generation = Generation.B,
        timing: Timing | None = None,
        pod_resources: Path | None = None,
    ) -> None:
        self.directory = directory
        self.generation = generation
        self.timing = timing or Timing()
        self.faults = Faults()
        self.observed = Record()
        self._pod_resources = pod_resources
        self.changes = Signal()
        self._awake = asyncio.Event()
        self._awake.set()
        self.admitter = Admitter()
        self._process: _KubeletRun | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def socket(self) -> Path:
        """The registration socket."""
        return self.directory / "kubelet.sock"

    async def start(self) -> None:
        """Read the checkpoint, clean up the directory (KST-1, KST-2), serve the sockets."""
        if self._process is not None:
            raise RuntimeError("the kubelet is running already")
        manager = DeviceManager(
            directory=self.directory,
            plugins=Plugins(self.generation),
            timing=self.timing,
            observed=self.observed,
            announce=self.changes.send,
        )
        manager.recover()
        self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        for path in tuple(self.directory.iterdir()):
            if path.is_socket():
                path.unlink(missing_ok=True)
        self._process = await self._serve(manager)
        self.admitter.manager = manager
        self.changes.send()

    async def _serve(self, manager: DeviceManager) -> _KubeletRun:
        tasks, servers = _Tasks(), [_GrpcServer(self.socket)]
        registration = RegistrationService(
            manager, start_task=tasks.start, faults=self.faults, awake=self._awake
        )
        deviceplugin_pb2_grpc.add_RegistrationServicer_to_server(registration, servers[0].grpc)
        if self._pod_resources is not None:
            self._pod_resources.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            servers.append(_GrpcServer(self._pod_resources))
            # Only List is implemented: other calls end with UNIMPLEMENTED.
            pods = PodResources(  # type: ignore[abstract]
                manager, self.admitter, faults=self.faults, awake=self._awake
            )
            podresources_pb2_grpc.add_PodResourcesListerServicer_to_server(pods, servers[1].grpc)
        for server in servers:
            await server.grpc.start()
        return _KubeletRun(manager=manager, registration=registration, tasks=tasks, servers=servers)

    async def stop(self) -> None:
        """Shut down: connections end, the sockets are removed."""
        if (process := self._detach()) is not None:
            await process.registration.close()
            await process.end()
            self.changes.send()

    async def crash(self) -> None:
        """Die: connections are lost, the sockets stay and refuse connections (KST-3)."""
        if (process := self._detach()) is not None:
            for server in process.servers:
                server.leave_socket()
            await process.end()
            self.changes.send()

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    def _detach(self) -> _KubeletRun | None:
        process, self._process = self._process, None
        self.admitter.manager = None
        return process

    def freeze(self) -> None:
        """Do nothing from now on, as after SIGSTOP, except that sockets accept connections."""
        self._awake.clear()

    def thaw(self) -> None:
        """Continue."""
        self._awake.set()

    def break_streams(self, resource: str) -> None:
        """Reset the ListAndWatch streams of a resource."""
        for client in self._connections(resource):
            client.reset_streams()

    async def wait_for(
        self, predicate: Callable[[], object], timeout_seconds: float = 30.0
    ) -> None:
        """Wait until the predicate holds; raise TimeoutError with a description of the state."""
        holds = until(lambda: bool(predicate()), self.changes, timeout_seconds=timeout_seconds)
        if not await holds:
            raise TimeoutError(f"not in {timeout_seconds} s; {self.describe()}")

    def describe(self) -> str:
        """Return the state on one line."""
        known = self._process.manager.healthy if self._process is not None else {}
        amounts = {resource: self._amount(resource) for resource in known}
        streams = {resource: self.streams(resource) for resource in known}
        return (
            f"running: {self._process is not None}, capacity and allocatable: {amounts},"
            f" streams: {streams}, registrations: {dict(self.observed.registrations)},"
            f" lists: {dict(self.observed.lists)}"
        )

    def devices(self, resource: str) -> dict[str, str]:
        """Return the health of each device of a resource, ``Healthy`` or ``Unhealthy``."""
        return self._process.manager.health(resource) if self._process is not None else {}

    def capacity(self, resource: str) -> int:
        """Return the number of devices."""
        return self._amount(resource)[0]

    def allocatable(self, resource: str) -> int:
        """Return the number of healthy devices."""
        return self._amount(resource)[1]

    def _amount(self, resource: str) -> tuple[int, int]:
        return self._process.manager.amount(resource) if self._process is not None else (0, 0)

    def streams(self, resource: str) -> int:
        """Return the number of open ListAndWatch streams of a resource."""
        return sum(len(client.streams) for client in self._connections(resource))

    def paths(self, resource: str) -> tuple[str, ...]:
        """Return the sockets of all connections for a resource, oldest first.

        A connection disappears once the kubelet has handled the end of its stream.
        """
        return tuple(client.path for client in self._connections(resource))

    def _connections(self, resource: str) -> tuple[PluginClient, ...]:
        return self._process.registration.connections(resource) if self._process else ()

    async def admit(self, pod: Pod) -> Admission:
        """Admit a pod: allocate for each of its containers, or reject it for good (ALL-1)."""
        admission = await self.admitter.admit(pod)
        self.changes.send()
        return admission

    async def start_container(self, pod: Pod, container: Container) -> Start:
        """Start or restart a container of an admitted pod (PRE-1, ALL-7)."""
        start = await self.admitter.start(pod, container)
        self.changes.send()
        return start


@dataclass(frozen=True, kw_only=True, slots=True)
class _KubeletRun:
    """One run of the kubelet, from start to end."""

    manager: DeviceManager
    registration: RegistrationService
    tasks: _Tasks
    servers: list[_GrpcServer]

    async def end(self) -> None:
        """Stop the servers and all background tasks, close all connections."""
        try:
            for server in self.servers:
                await server.grpc.stop(None)
            await self.tasks.stop()
        finally:
            await self.registration.close()
            for server in self.servers:
                server.close()


class _GrpcServer:
    """A gRPC server on a unix socket.

    The socket is bound through a descriptor of its directory, so that the path may be long, and so
    that gRPC can be kept from removing the socket when it stops.
    """

    def __init__(self, socket: Path) -> None:
        self.grpc = grpc.aio.server()
        self._directory = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY)
        self.grpc.add_insecure_port(f"unix:/proc/self/fd/{self._directory}/{socket.name}")

    def leave_socket(self) -> None:
        """Leave the socket behind: gRPC will not find it."""
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, self._directory, inheritable=False)
        os.close(nowhere)

    def close(self) -> None:
        """Close the descriptor, after the server has stopped."""
        os.close(self._directory)


class _Tasks:
    """Background tasks that end together.

    Unlike those of a ``TaskGroup`` they may be started in one task and stopped in another: a
    fixture starts the kubelet, and the test restarts it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self) -> None:
        """Cancel all tasks; raise the exception of any that failed, which is a bug here."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or (failure := task.exception()) is None:
            self._tasks.discard(task)
        else:
            log.error("%s failed", task.get_name(), exc_info=failure)
