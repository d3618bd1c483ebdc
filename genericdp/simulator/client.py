"""The kubelet's connections to plugins."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import grpc

from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

MAX_LIST_BYTES = 4_194_304
"""grpc-go's default limit of a message; the kubelet does not change it (LAW-6)."""
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_LIST_BYTES),
    # Otherwise channels to the same path share a connection and its back-off.
    ("grpc.use_local_subchannel_pool", 1),
)

_AnswerT = TypeVar("_AnswerT")


class SimulatedKubeletError(Exception):
    """An error within the kubelet; its text is the kubelet's."""


def _call_error(code: grpc.StatusCode, description: str) -> SimulatedKubeletError:
    """Return the error of a gRPC call as Go prints it."""
    words = "".join(word.capitalize() for word in code.name.split("_"))
    name = "Canceled" if code is grpc.StatusCode.CANCELLED else words
    if description == "Deadline Exceeded":
        description = "context deadline exceeded"
    return SimulatedKubeletError(f"rpc error: code = {name} desc = {description}")


def _connection_closing() -> SimulatedKubeletError:
    return _call_error(grpc.StatusCode.CANCELLED, "grpc: the client connection is closing")


class PluginClient:
    """A connection to a plugin: it is dialed once and never again."""

    def __init__(self, *, resource: str, path: str) -> None:
        self.resource = resource
        self.path = path
        self.streams: set[grpc.aio.UnaryStreamCall[pb.Empty, pb.ListAndWatchResponse]] = set()
        """The calls of ListAndWatch that have not ended."""
        self._channel: grpc.aio.Channel | None = None

    @property
    def plugin(self) -> rpc.DevicePluginAsyncStub:
        """The stub for calls; raises SimulatedKubeletError if the connection is closed."""
        if self._channel is None:
            raise _connection_closing()
        return rpc.DevicePluginStub(self._channel)

    async def dial(self, timeout_seconds: float) -> None:
        """Connect and wait until HTTP/2 is ready (REG-1)."""
        channel = grpc.aio.insecure_channel(f"unix:{quote(self.path)}", options=_OPTIONS)
        try:
            async with asyncio.timeout(timeout_seconds):
                await channel.channel_ready()
        except TimeoutError:
            await channel.close()
            text = "failed to dial device plugin: context deadline exceeded"
            raise SimulatedKubeletError(text) from None
        except asyncio.CancelledError:
            await channel.close()
            raise
        self._channel = channel

    async def ask(self, call: Awaitable[_AnswerT]) -> _AnswerT:
        """Call the plugin and return its answer.

        Raises SimulatedKubeletError in the kubelet's words if it fails.
        """
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise _call_error(error.code(), error.details() or "") from None
        except asyncio.CancelledError:
            if _is_task_canceled():
                raise
            raise _connection_closing() from None

    async def lists(self) -> AsyncGenerator[pb.ListAndWatchResponse, None]:
        """Open a ListAndWatch stream; yield its lists until it ends for any reason (KST-7)."""
        if self._channel is None:
            return
        call = self.plugin.ListAndWatch(pb.Empty())
        self.streams.add(call)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError:
            pass
        except asyncio.CancelledError:
            if _is_task_canceled():
                raise
        finally:
            self.streams.discard(call)
            call.cancel()

    def reset_streams(self) -> None:
        """Cancel the streams; the plugin sees RST_STREAM on a connection that stays open."""
        for call in tuple(self.streams):
            call.cancel()

    async def close(self) -> None:
        """Close the connection; pending calls end with ``Canceled``."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()


def _is_task_canceled() -> bool:
    """Distinguish a canceled task from a canceled call: grpc.aio raises the same for both."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
