"""A bare device plugin: ``python -m bench.bare_plugin FOLDER NAME=GLOB…``.

It has no config, no checks and hardly any retries. Each resource lists what its glob finds in
one folder.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import signal
import sys
from typing import TYPE_CHECKING

import grpc
from inotify_simple import Event, INotify, flags

from genericdp.kubelet.api import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_APPEARS, _VANISHES = flags.CREATE | flags.MOVED_TO, flags.DELETE | flags.MOVED_FROM
_SERVICE = "v1beta1.DevicePlugin"
_CHANNEL = (("grpc.use_local_subchannel_pool", 1),)


class Plugin:
    """One resource, without error handling."""

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
        if set(names) != self._encoded.keys():
            self._encoded = {name: self._encoded.get(name) or _encode(name) for name in names}
            self._changed.set()

    def tell(self, name: str, *, there: bool) -> None:
        """Take in what an event says of a name in the folder."""
        if not fnmatch.fnmatchcase(name, self._glob):
            return
        if there:
            self._encoded[name] = _encode(name)
        else:
            self._encoded.pop(name, None)
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


class Watch:
    """Listens to the kubelet's folder and to those of the plugins."""

    def __init__(
        self, kubelet_folder: str, plugins: list[Plugin], new_kubelet: asyncio.Event
    ) -> None:
        self._plugins = plugins
        self._new_kubelet = new_kubelet
        self._inotify = INotify(nonblocking=True)
        self._kubelet = self._inotify.add_watch(kubelet_folder, _APPEARS | _VANISHES)
        self._watched: dict[int, list[Plugin]] = {}
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._drain)

    def listen(self) -> None:
        """Have the plugins told of their nodes."""
        for plugin in self._plugins:
            watch = self._inotify.add_watch(plugin.folder, _APPEARS | _VANISHES)
            self._watched.setdefault(watch, []).append(plugin)

    def _drain(self) -> None:
        for event in self._inotify.read(timeout=0):
            if event.wd != self._kubelet:
                self._take_in(event)
            elif event.name == "kubelet.sock" and event.mask & flags.CREATE:
                self._new_kubelet.set()

    def _take_in(self, event: Event) -> None:
        if event.mask & flags.Q_OVERFLOW:
            for plugin in self._plugins:
                plugin.look()
        for plugin in self._watched.get(event.wd, ()):
            plugin.tell(event.name, there=bool(event.mask & _APPEARS))


async def _main(*arguments: str) -> None:
    kubelet_folder, *wanted = arguments
    plugins = [Plugin(kubelet_folder, *one.split("=")) for one in wanted]
    new_kubelet = asyncio.Event()
    watch = Watch(kubelet_folder, plugins, new_kubelet)
    watch.listen()
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
