"""The kubelet's side of DRA: it finds drivers in plugins_registry and calls them about claims.

It does what a kubelet 1.37 does, and gives as long for an answer; only between two attempts it
waits for less. What it leaves out: it does not ask the API server for a claim before it calls, and
calls even if a claim is prepared.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import grpc
from genericdp.host.events import ENTRIES, DirectoryWatch
from genericdp.kubelet.api import dra_pb2 as api
from genericdp.kubelet.api import dra_pb2_grpc as rpc
from genericdp.kubelet.api import drahealth_pb2 as health_api
from genericdp.kubelet.api import pluginregistration_pb2 as registration_api
from genericdp.kubelet.api.pluginregistration_pb2_grpc import RegistrationStub
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from genericdp.kubelet.api.pluginregistration_pb2_grpc import RegistrationAsyncStub

_T = TypeVar("_T")
Health = dict[tuple[str, str], tuple[str, str]]
"""Status and message, by pool and device."""

PATIENCE_SECONDS = 30.0

_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_GET_INFO_SECONDS = 1.0
_NOTIFY_SECONDS = 5.0
_CALL_SECONDS = 45.0
_RETRY_SECONDS = 0.1
_NOT_SENT = "DEADLINE_EXCEEDED: the call was not sent"


class DraCallError(Exception):
    """A call, or a registration, that the kubelet takes as failed."""


@dataclass(eq=False)
class _Plugin:
    driver: str
    identity: tuple[int, int]
    """Of the registration socket."""
    channel: grpc.aio.Channel
    is_registered: bool = False
    is_connected: bool = False
    watching: asyncio.Task[None] | None = None


class DraKubelet:
    """A kubelet that knows of DRA alone, below a directory that stands for /var/lib/kubelet.

    ``wipe`` deletes this node's ResourceSlices, of a driver or, if that is "", all of them, as at
    the start. With a fake for the API server:
    ``wipe=lambda driver: server.wipe("node-1", driver=driver)``.
    """

    def __init__(
        self,
        root: Path,
        *,
        wipe: Callable[[str], None] = lambda driver: None,
    ) -> None:
        self.registry = root / "plugins_registry"
        self.drivers: Observed[frozenset[str]] = Observed(frozenset())
        """Those that are registered and connected."""
        self.registrations: Observed[int] = Observed(0)
        """How often a driver has been registered, also before restarts."""
        self.failures: Observed[tuple[str, ...]] = Observed(())
        """Why drivers could not be registered."""
        self.refusal = ""
        """If it is not empty, no driver is registered, for this reason."""
        self.notify_seconds = _NOTIFY_SECONDS
        """How long a driver may take to answer NotifyRegistrationStatus; 0: it is not called."""
        self._root = root
        self._wipe = wipe
        self._plugins: dict[Path, _Plugin] = {}
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self) -> None:
        """Start; drivers whose sockets are there already are registered soon."""
        for name in ("plugins", "plugins_registry"):
            (self._root / name).mkdir(mode=0o750, parents=True, exist_ok=True)
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End all connections, and show no one; raise what went wrong."""
        if (running := self._running) is not None:
            self._running = None
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def restart(self) -> None:
        """Stop and start: slices are wiped, and drivers are registered again."""
        await self.stop()
        self.start()

    async def wait_for(self, driver: str) -> None:
        """Wait until a driver is registered and connected."""
        if not await self._until(lambda: driver in self.drivers.value):
            raise TimeoutError(f"{driver} is not registered: {self.failures.value}")

    async def wait_for_end(self, driver: str) -> None:
        """Wait until a driver is not registered, or not connected."""
        if not await self._until(lambda: driver not in self.drivers.value):
            raise TimeoutError(f"{driver} is still registered")

    async def _until(self, condition: Callable[[], bool]) -> bool:
        return await until(condition, self.drivers, timeout_seconds=PATIENCE_SECONDS)

    async def prepare(
        self, driver: str, *claims: api.Claim
    ) -> dict[str, tuple[api.Device, ...] | str]:
        """Call NodePrepareResources; return devices or the error of each claim by its UID.

        Raise DraCallError if the call as a whole counts as failed.
        """
        request = api.NodePrepareResourcesRequest(claims=claims)
        stub = self._stub(driver)
        answer = await _answer(stub.NodePrepareResources(request, timeout=_CALL_SECONDS))
        _check_uids(claims, answer.claims)
        return {uid: claim.error or tuple(claim.devices) for uid, claim in answer.claims.items()}

    async def unprepare(self, driver: str, *claims: api.Claim) -> dict[str, str]:
        """Call NodeUnprepareResources; return the error of each claim by its UID.

        Raise DraCallError if the call as a whole counts as failed.
        """
        request = api.NodeUnprepareResourcesRequest(claims=claims)
        stub = self._stub(driver)
        answer = await _answer(stub.NodeUnprepareResources(request, timeout=_CALL_SECONDS))
        _check_uids(claims, answer.claims)
        return {uid: claim.error for uid, claim in answer.claims.items()}

    async def health(self, driver: str, service: str = "v1") -> AsyncGenerator[Health, None]:
        """Yield what a driver reports, in a stream of its own."""
        method = f"/{service}.DRAResourceHealth/NodeWatchResources"
        watch = self._channel(driver).unary_stream(
            method,
            request_serializer=health_api.NodeWatchResourcesRequest.SerializeToString,
            response_deserializer=health_api.NodeWatchResourcesResponse.FromString,
        )
        async for response in watch(health_api.NodeWatchResourcesRequest()):
            yield {
                (found.device.pool_name, found.device.device_name): (
                    health_api.HealthStatus.Name(found.health),
                    found.message,
                )
                for found in response.devices
            }

    async def reports(self, driver: str, device: tuple[str, str], status: str) -> str:
        """Wait until a driver reports a status of a device; return the message."""
        async with asyncio.timeout(PATIENCE_SECONDS), aclosing(self.health(driver)) as reports:
            async for report in reports:
                if report.get(device, ("", ""))[0] == status:
                    return report[device][1]
        raise TimeoutError(f"the stream of {driver} has ended")

    def _stub(self, driver: str) -> rpc.DRAPluginAsyncStub:
        return rpc.DRAPluginStub(self._channel(driver))

    def _channel(self, driver: str) -> grpc.aio.Channel:
        found = [plugin for plugin in self._plugins.values() if plugin.driver == driver]
        if not found:
            raise DraCallError(f"DRA driver {driver} is not registered")
        found.sort(key=lambda entry: entry.is_connected)  # the last connected one, else the last
        return found[-1].channel

    async def _run(self) -> None:
        changed = asyncio.Event()
        watch = DirectoryWatch(lambda *_: changed.set(), what="registry")
        try:
            async with asyncio.TaskGroup() as tasks:
                self._wipe("")
                while True:
                    changed.clear()
                    await watch.set_directories({str(self.registry): ENTRIES})
                    is_complete = await self._reconcile(tasks)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(None if is_complete else _RETRY_SECONDS):
                            await changed.wait()
        finally:
            watch.close()
            for path in tuple(self._plugins):
                await self._deregister(path)

    async def _reconcile(self, tasks: asyncio.TaskGroup) -> bool:
        """Register what is there and deregister what is not; return whether nothing is left."""
        found = _sockets(self.registry)
        for path, plugin in tuple(self._plugins.items()):
            if found.get(path) != plugin.identity:
                await self._deregister(path)
        for path in found.keys() - self._plugins.keys():
            try:
                await self._register(path, found[path], tasks)
            except DraCallError as error:
                self.failures.value = (*self.failures.value, str(error))
        return found.keys() <= self._plugins.keys()

    async def _register(
        self, path: Path, identity: tuple[int, int], tasks: asyncio.TaskGroup
    ) -> None:
        async with grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS) as channel:
            stub = RegistrationStub(channel)
            asked = stub.GetInfo(registration_api.InfoRequest(), timeout=_GET_INFO_SECONDS)
            info = await _answer(asked)
            reason = self.refusal or self._objection(info)
            if not reason:
                plugin = _Plugin(
                    info.name,
                    identity,
                    grpc.aio.insecure_channel(f"unix:{info.endpoint or path}", options=_OPTIONS),
                )
                self._plugins[path] = plugin
                plugin.watching = tasks.create_task(self._watch(plugin))
            status = registration_api.RegistrationStatus(plugin_registered=not reason, error=reason)
            try:
                await self._notify(stub, status)
            except DraCallError:
                if not reason:
                    await self._deregister(path)
                raise
        if reason:
            raise DraCallError(reason)
        self._plugins[path].is_registered = True
        self._update_drivers()
        self.registrations.value += 1

    async def _notify(
        self, stub: RegistrationAsyncStub, status: registration_api.RegistrationStatus
    ) -> None:
        if not self.notify_seconds:  # a call without time may reach the driver
            raise DraCallError(_NOT_SENT)
        await _answer(stub.NotifyRegistrationStatus(status, timeout=self.notify_seconds))

    def _objection(self, info: registration_api.PluginInfo) -> str:
        if info.type != "DRAPlugin":
            return f"no handler registered for plugin type: {info.type}"
        if "v1.DRAPlugin" not in info.supported_versions:
            return f"none of the services {list(info.supported_versions)} is supported"
        return ""

    async def _deregister(self, path: Path) -> None:
        plugin = self._plugins.pop(path)
        if plugin.watching is not None:
            plugin.watching.cancel()
        await plugin.channel.close()
        self._update_drivers()

    async def _watch(self, plugin: _Plugin) -> None:
        """Keep the connection, and know whether there is one."""
        while True:
            state = plugin.channel.get_state(try_to_connect=True)
            plugin.is_connected = state is grpc.ChannelConnectivity.READY
            self._update_drivers()
            await plugin.channel.wait_for_state_change(state)

    def _update_drivers(self) -> None:
        self.drivers.value = frozenset(
            plugin.driver
            for plugin in self._plugins.values()
            if plugin.is_registered and plugin.is_connected
        )


def _sockets(directory: Path) -> dict[Path, tuple[int, int]]:
    """Return the sockets that the kubelet reads, with what shows one from another."""
    found = {}
    for path in sorted(directory.iterdir()):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISSOCK(status.st_mode) and not path.name.startswith("."):
                found[path] = (status.st_ino, status.st_ctime_ns)
    return found


def _check_uids(claims: Iterable[api.Claim], answered: Iterable[str]) -> None:
    asked = {claim.uid for claim in claims}
    if unknown := set(answered) - asked:
        raise DraCallError(f"a result for unknown claim UID {unknown.pop()}")
    if missing := asked - set(answered):
        raise DraCallError(f"skipped {len(missing)} ResourceClaims")


async def _answer(call: Awaitable[_T]) -> _T:
    try:
        return await call
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            raise
        raise DraCallError("CANCELLED: the driver has stopped") from None  # as gRPC puts it
    except grpc.aio.AioRpcError as error:
        raise DraCallError(f"{error.code().name}: {error.details()}") from error
