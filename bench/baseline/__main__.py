"""A device plugin with nothing in it: ``python -m bench.baseline FOLDER NAME=GLOB…``.

It has no config, no checks and hardly any retries. Each resource lists what its glob finds, in
one folder. With ``--poll`` before all else it looks every second and listens to no events.
"""

from __future__ import annotations

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["GRPC_VERBOSITY"] = "NONE"

import asyncio
import fnmatch
import signal
import sys
from typing import TYPE_CHECKING

import grpc
from inotify_simple import INotify, flags

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_POLL_SECONDS = 1.0
_SERVICE = "v1beta1.DevicePlugin"
_CHANNEL = (("grpc.use_local_subchannel_pool", 1),)


class Plugin:
    """One resource, without a thought for what may go wrong."""

    def __init__(self, kubelet_folder: str, resource: str, pattern: str) -> None:
        self.folder, _, self._glob = pattern.rpartition("/")
        self._kubelet_folder = kubelet_folder
        self._resource = resource
        self._count = 0
        self._encoded: dict[str, bytes] = {}
        self._changed = asyncio.Event()
        self._server: grpc.aio.Server | None = None
        self.look()

    def look(self) -> None:
        """Make the list anew."""
        names = sorted(fnmatch.filter(os.listdir(self.folder), self._glob))  # noqa: PTH208  # fast
        if names != list(self._encoded):
            self._encoded = {name: self._encoded.get(name) or _encode(name) for name in names}
            self._changed.set()

    async def register(self) -> None:
        """Serve on a new socket and tell the kubelet of it."""
        if self._server is not None:
            await self._server.stop(None)
        self._count += 1
        name = f"bare-{self._resource.replace('/', '-')}-{self._count}.sock"
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix:{self._kubelet_folder}/{name}")
        await self._server.start()
        request = api.RegisterRequest(
            version="v1beta1", endpoint=name, resource_name=self._resource
        )
        target = f"unix:{self._kubelet_folder}/kubelet.sock"
        async with grpc.aio.insecure_channel(target, options=_CHANNEL) as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/v1beta1.Registration/Register"
            )
            await call(request.SerializeToString())

    def _handlers(self) -> grpc.GenericRpcHandler:
        async def options(_request: bytes, _context: object) -> bytes:
            return b""

        async def list_and_watch(_request: bytes, _context: object) -> AsyncIterator[bytes]:
            while True:
                self._changed.clear()
                yield b"".join(self._encoded.values())
                await self._changed.wait()

        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(options),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(list_and_watch),
                "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
            },
        )

    async def _allocate(self, request: bytes, _context: object) -> bytes:
        asked = api.AllocateRequest.FromString(request)
        answers = [
            api.ContainerAllocateResponse(
                devices=[
                    api.DeviceSpec(host_path=path, container_path=path, permissions="rw")
                    for path in (f"{self.folder}/{name}" for name in one.devices_ids)
                ]
            )
            for one in asked.container_requests
        ]
        return api.AllocateResponse(container_responses=answers).SerializeToString()


def _encode(name: str) -> bytes:
    device = api.Device(ID=name, health="Healthy")
    return api.ListAndWatchResponse(devices=[device]).SerializeToString()


def _poll(plugins: list[Plugin]) -> None:
    for plugin in plugins:
        plugin.look()
    asyncio.get_running_loop().call_later(_POLL_SECONDS, _poll, plugins)


def _watch(
    kubelet_folder: str, plugins: list[Plugin], new_kubelet: asyncio.Event, *, polling: bool
) -> None:
    inotify = INotify(nonblocking=True)
    mask = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
    kubelet = inotify.add_watch(kubelet_folder, mask)
    for folder in () if polling else {plugin.folder for plugin in plugins}:
        inotify.add_watch(folder, mask)

    def drain() -> None:
        events = inotify.read(timeout=0)
        ours = [event for event in events if event.wd == kubelet]
        if any(one.name == "kubelet.sock" and one.mask & flags.CREATE for one in ours):
            new_kubelet.set()
        if len(ours) < len(events):
            for plugin in plugins:
                plugin.look()

    asyncio.get_running_loop().add_reader(inotify.fileno(), drain)


async def _main(*arguments: str) -> None:
    polling = arguments[0] == "--poll"
    kubelet_folder, *wanted = arguments[1:] if polling else arguments
    plugins = [Plugin(kubelet_folder, *one.split("=")) for one in wanted]
    new_kubelet = asyncio.Event()
    _watch(kubelet_folder, plugins, new_kubelet, polling=polling)
    if polling:
        _poll(plugins)
    new_kubelet.set()
    while True:
        await new_kubelet.wait()
        new_kubelet.clear()
        try:
            await asyncio.gather(*(plugin.register() for plugin in plugins))
        except grpc.aio.AioRpcError:  # a kubelet.sock that is not served yet
            new_kubelet.set()


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
asyncio.run(_main(*sys.argv[1:]))
