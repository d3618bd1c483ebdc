"""A device plugin with nothing behind it, and with mistakes that tests switch on."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc

RESOURCE = "example.com/thing"

_numbers = itertools.count()


@dataclass
class Answers:
    """The answers of the plugin; an exception-like text fails the call."""

    pre_start_required: bool = False
    preferred_available: bool = False
    allocate: list[pb.ContainerAllocateResponse] | None = None
    allocate_error: str | None = None
    preferred_error: str | None = None
    pre_start_error: str | None = None
    pre_start_hangs: bool = False
    options_error: str | None = None
    options_hang: bool = False


class BarePlugin(rpc.DevicePluginServicer):
    """Serves one resource on a socket of its own; a test registers it when it likes."""

    def __init__(
        self, directory: Path, *, resource: str = RESOURCE, name: str | None = None
    ) -> None:
        self.directory = directory
        self.resource = resource
        self.name = name or f"plugin-{next(_numbers)}.sock"
        self.answers = Answers()
        self.options_asked = asyncio.Event()
        self.allocate_requests: list[pb.AllocateRequest] = []
        self.pre_start_requests: list[list[str]] = []
        self.streams = 0
        self._devices: list[pb.Device] = []
        self._streams: list[asyncio.Queue[list[pb.Device] | None]] = []
        self._server = grpc.aio.server(options=(("grpc.max_send_message_length", -1),))
        rpc.add_DevicePluginServicer_to_server(self, self._server)

    async def start(self) -> None:
        self._server.add_insecure_port(f"unix:{self.directory / self.name}")
        await self._server.start()

    async def serve(self, *healthy: str) -> Self:
        """Start with these devices, and register."""
        self.show(*healthy)
        await self.start()
        await self.register()
        return self

    async def stop(self) -> None:
        await self._server.stop(None)

    def show(self, *healthy: str, unhealthy: Iterable[str] = ()) -> None:
        """Send this list on every stream, now and at the start of those to come."""
        self.send(
            [pb.Device(ID=i, health="Healthy") for i in healthy]
            + [pb.Device(ID=i, health="Unhealthy") for i in unhealthy]
        )

    def send(self, devices: list[pb.Device]) -> None:
        self._devices = devices
        for stream in self._streams:
            stream.put_nowait(devices)

    def end_streams(self) -> None:
        """End the streams in good order while the server continues."""
        for stream in self._streams:
            stream.put_nowait(None)

    async def register(
        self,
        *,
        version: str = "v1beta1",
        resource: str | None = None,
        endpoint: str | None = None,
        within_seconds: float = 15.0,
    ) -> None:
        options = (("grpc.use_local_subchannel_pool", 1),)
        target = f"unix:{self.directory}/kubelet.sock"
        async with grpc.aio.insecure_channel(target, options=options) as channel:
            await rpc.RegistrationStub(channel).Register(
                pb.RegisterRequest(
                    version=version,
                    endpoint=self.name if endpoint is None else endpoint,
                    resource_name=self.resource if resource is None else resource,
                ),
                timeout=within_seconds,
            )

    async def GetDevicePluginOptions(
        self, request: pb.Empty, context: Any
    ) -> pb.DevicePluginOptions:
        self.options_asked.set()
        if self.answers.options_hang:
            await asyncio.Event().wait()
        await _fail(context, self.answers.options_error)
        return pb.DevicePluginOptions(
            pre_start_required=self.answers.pre_start_required,
            get_preferred_allocation_available=self.answers.preferred_available,
        )

    async def ListAndWatch(
        self, request: pb.Empty, context: Any
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        self.streams += 1
        changes: asyncio.Queue[list[pb.Device] | None] = asyncio.Queue()
        self._streams.append(changes)
        try:
            devices: list[pb.Device] | None = self._devices
            while devices is not None:
                yield pb.ListAndWatchResponse(devices=devices)
                devices = await changes.get()
        finally:
            self._streams.remove(changes)

    async def GetPreferredAllocation(
        self, request: pb.PreferredAllocationRequest, context: Any
    ) -> pb.PreferredAllocationResponse:
        await _fail(context, self.answers.preferred_error)
        return pb.PreferredAllocationResponse()

    async def Allocate(self, request: pb.AllocateRequest, context: Any) -> pb.AllocateResponse:
        self.allocate_requests.append(request)
        await _fail(context, self.answers.allocate_error)
        answers = self.answers.allocate
        if answers is None:
            ids = ",".join(sorted(request.container_requests[0].devices_ids))
            answers = [pb.ContainerAllocateResponse(envs={"IDS": ids})]
        return pb.AllocateResponse(container_responses=answers)

    async def PreStartContainer(
        self, request: pb.PreStartContainerRequest, context: Any
    ) -> pb.PreStartContainerResponse:
        self.pre_start_requests.append(list(request.devices_ids))
        if self.answers.pre_start_hangs:
            await asyncio.Event().wait()
        await _fail(context, self.answers.pre_start_error)
        return pb.PreStartContainerResponse()


async def _fail(context: Any, text: str | None) -> None:
    if text is not None:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)


@asynccontextmanager
async def registering(plugin: BarePlugin) -> AsyncIterator[None]:
    """Call Register, which must not answer within the block; give up at its end."""
    async with asyncio.TaskGroup() as group:
        call = group.create_task(plugin.register(within_seconds=60))
        yield
        assert not call.done()
        call.cancel()


async def refusal(register: Awaitable[None]) -> tuple[grpc.StatusCode, str]:
    """Await a Register that has to fail; give its code and text."""
    try:
        await register
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    raise AssertionError("Register succeeded")
