"""A minimal device plugin on the same libraries, as the baseline of costs.

``python -m bench.bare DIRECTORY NAME=GLOB…``: a device plugin without a config, without checks and
with hardly any retries; each resource lists what its glob finds in one directory.
``python -m bench.bare SOCKET``: a DRA driver that asks no API server and writes nothing.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import grpc
from inotify_simple import INotify, flags

from genericdp.kubelet.api import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_APPEARS, _DISAPPEARS = flags.CREATE | flags.MOVED_TO, flags.DELETE | flags.MOVED_FROM
_CHANNEL = (("grpc.use_local_subchannel_pool", 1),)


async def serve(
    socket: str, service: str, **methods: grpc.RpcMethodHandler[Any, Any]
) -> grpc.aio.Server:
    """Serve the methods of a service, in bytes, on a socket."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    return server


class Plugin:
    """One resource, without error handling."""

    def __init__(self, kubelet: str, resource: str, pattern: str) -> None:
        self.directory, _, self._glob = pattern.rpartition("/")
        self._kubelet = kubelet
        self._resource = resource
        self._count = 0
        self._encoded: dict[str, bytes] = {}
        self._changed = asyncio.Event()
        self._server: grpc.aio.Server | None = None
        for name in sorted(os.listdir(self.directory)):  # noqa: PTH208  # fast
            self.tell(name, present=True)

    def tell(self, name: str, *, present: bool) -> None:
        """Take what an event says of a name in the directory."""
        if not fnmatch.fnmatchcase(name, self._glob):
            return
        self._encoded.pop(name, None)
        if present:
            device = api.Device(ID=name, health="Healthy")
            self._encoded[name] = api.ListAndWatchResponse(devices=[device]).SerializeToString()
        self._changed.set()

    async def register(self) -> None:
        """Serve on a new socket and register it with the kubelet."""
        if self._server is not None:
            await self._server.stop(None)
        self._count += 1
        name = f"bare-{self._resource.replace('/', '-')}-{self._count}.sock"
        self._server = await serve(
            f"{self._kubelet}/{name}",
            "v1beta1.DevicePlugin",
            GetDevicePluginOptions=grpc.unary_unary_rpc_method_handler(_nothing),
            ListAndWatch=grpc.unary_stream_rpc_method_handler(self._list_and_watch),
            Allocate=grpc.unary_unary_rpc_method_handler(self._allocate),
        )
        request = api.RegisterRequest(
            version="v1beta1", endpoint=name, resource_name=self._resource
        )
        target = f"unix:{self._kubelet}/kubelet.sock"
        async with grpc.aio.insecure_channel(target, options=_CHANNEL) as channel:
            call: Any = channel.unary_unary("/v1beta1.Registration/Register")
            await call(request.SerializeToString())

    async def _list_and_watch(self, _request: bytes, _context: object) -> AsyncIterator[bytes]:
        while True:
            self._changed.clear()
            yield b"".join(self._encoded.values())
            await self._changed.wait()

    async def _allocate(self, request: bytes, _context: object) -> bytes:
        answer = api.AllocateResponse()
        for container in api.AllocateRequest.FromString(request).container_requests:
            devices = answer.container_responses.add().devices
            for path in (f"{self.directory}/{name}" for name in container.devices_ids):
                devices.add(host_path=path, container_path=path, permissions="rw")
        return answer.SerializeToString()


async def _nothing(_request: bytes, _context: object) -> bytes:
    return b""


async def _plugins(kubelet: str, *wanted: str) -> None:
    plugins = [Plugin(kubelet, *words.split("=")) for words in wanted]
    new_kubelet = asyncio.Event()
    new_kubelet.set()
    inotify = INotify(nonblocking=True)
    watch = inotify.add_watch(kubelet, _APPEARS)
    watched: dict[int, list[Plugin]] = {}
    for plugin in plugins:
        of = inotify.add_watch(plugin.directory, _APPEARS | _DISAPPEARS)
        watched.setdefault(of, []).append(plugin)

    def drain() -> None:
        for event in inotify.read(timeout=0):
            if event.wd == watch and event.name == "kubelet.sock":
                new_kubelet.set()
            for plugin in watched.get(event.wd, ()):
                plugin.tell(event.name, present=bool(event.mask & _APPEARS))

    asyncio.get_running_loop().add_reader(inotify.fileno(), drain)
    while True:
        await new_kubelet.wait()
        new_kubelet.clear()
        try:
            await asyncio.gather(*(plugin.register() for plugin in plugins))
        except grpc.aio.AioRpcError:  # a kubelet.sock that is not served yet
            new_kubelet.set()


async def _driver(socket: str) -> None:
    from genericdp.kubelet.api import dra_pb2 as dra  # a device plugin does without

    async def prepare(request: bytes, _context: object) -> bytes:
        answer = dra.NodePrepareResourcesResponse()
        for claim in dra.NodePrepareResourcesRequest.FromString(request).claims:
            device = dra.Device(request_names=["device"], pool_name="pool", device_name="device")
            device.cdi_device_ids.append(f"bench.example.com/claim={claim.uid}")
            answer.claims[claim.uid].devices.append(device)
        return answer.SerializeToString()

    async def unprepare(request: bytes, _context: object) -> bytes:
        answer = dra.NodeUnprepareResourcesResponse()
        for claim in dra.NodeUnprepareResourcesRequest.FromString(request).claims:
            answer.claims[claim.uid].error = ""
        return answer.SerializeToString()

    server = await serve(
        socket,
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
        NodePrepareResources=grpc.unary_unary_rpc_method_handler(prepare),
        NodeUnprepareResources=grpc.unary_unary_rpc_method_handler(unprepare),
    )
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(_plugins(*sys.argv[1:]) if sys.argv[2:] else _driver(sys.argv[1]))
