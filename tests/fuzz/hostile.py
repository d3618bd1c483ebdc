"""A kubelet that answers whatever an input says: by gRPC, or with any bytes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import grpc
from genericdp.kubelet.directory import KUBELET_SOCKET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

CODES = tuple(code for code in grpc.StatusCode if code is not grpc.StatusCode.OK)
TIMEOUT_SECONDS = 0.05
_METHODS = ("Register", "GetDevicePluginOptions", "List")
_SERVICES = ("v1beta1.Registration", "v1beta1.DevicePlugin", "v1.PodResourcesLister")


class HostileKubelet:
    """If the first byte is odd, what follows it comes as it is; else the next one is the code."""

    def __init__(self, directory: Path) -> None:
        self.by_call = directory / "call"
        self.by_bytes = directory / "bytes"
        self.data = b""

    @property
    def how(self) -> tuple[Path, float]:
        """The directory of the socket to call, and the seconds to give it."""
        if self.data[0] & 1:
            return self.by_bytes, TIMEOUT_SECONDS
        return self.by_call, 20.0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[HostileKubelet]:
        for directory in (self.by_call, self.by_bytes):
            directory.mkdir()
        server = grpc.aio.server()
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            name: grpc.unary_unary_rpc_method_handler(self._answer) for name in _METHODS
        }
        for service in _SERVICES:
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, methods),)
            )
        server.add_insecure_port(f"unix:{self.by_call / KUBELET_SOCKET}")
        await server.start()
        raw = await asyncio.start_unix_server(self._told, str(self.by_bytes / KUBELET_SOCKET))
        try:
            yield self
        finally:
            raw.close()
            await server.stop(None)

    async def _answer(self, _: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        code = self.data[1] if len(self.data) > 1 else 0
        if code < len(CODES):
            await context.abort(CODES[code], self.data[2:].decode("utf-8", "replace"))
        return self.data[2:]

    async def _told(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(self.data[1:])
            await writer.drain()
            if self.data[0] & 2:  # the peer ends it; else it is left to the one who asked
                await reader.read(65_536)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@contextmanager
def asked(
    ask: Callable[[HostileKubelet], Coroutine[None, None, None]],
) -> Iterator[Callable[[bytes], None]]:
    """Serve; gives what asks such a kubelet once for each input."""
    with TemporaryDirectory() as directory, asyncio.Runner() as runner:
        stack = AsyncExitStack()
        kubelet = runner.run(stack.enter_async_context(HostileKubelet(Path(directory)).serving()))

        def give(data: bytes) -> None:
            kubelet.data = data or b"\0"
            runner.run(ask(kubelet))

        try:
            yield give
        finally:
            runner.run(stack.aclose())
