"""One connection of the kubelet to a plugin: dialled once, never again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import grpc

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc as rpc
from genericdp.simulator.goerrors import KubeletError, connection_closing, from_rpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

MAX_LIST_BYTES = 4_194_304
"""What grpc-go receives unless told otherwise; nothing in the kubelet tells it (LAW-6)."""

_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_LIST_BYTES),
    # Else grpcio shares one connection, and its back-off, among all channels to the same path.
    ("grpc.use_local_subchannel_pool", 1),
)

_Answer = TypeVar("_Answer")


class PluginClient:
    """The kubelet's side of one registration."""

    def __init__(self, *, resource: str, path: str) -> None:
        self.resource = resource
        self.path = path
        self.streams = 0
        """How many ListAndWatch of this connection are open."""
        self._channel: grpc.aio.Channel | None = None
        self._stub: rpc.DevicePluginAsyncStub | None = None
        self._calls: set[grpc.aio.UnaryStreamCall[pb.Empty, pb.ListAndWatchResponse]] = set()

    @property
    def plugin(self) -> rpc.DevicePluginAsyncStub:
        """The plugin's calls, between a successful dial and the close."""
        if self._stub is None:
            raise connection_closing()
        return self._stub

    async def dial(self, within_seconds: float) -> None:
        """Connect and wait until HTTP/2 is ready (REG-1)."""
        channel = grpc.aio.insecure_channel(f"unix:{quote(self.path)}", options=_OPTIONS)
        try:
            async with asyncio.timeout(within_seconds):
                await channel.channel_ready()
        except TimeoutError:
            await channel.close()
            text = "failed to dial device plugin: context deadline exceeded"
            raise KubeletError(text) from None
        except asyncio.CancelledError:
            await channel.close()
            raise
        self._channel = channel
        self._stub = rpc.DevicePluginStub(channel)

    async def ask(self, call: Awaitable[_Answer]) -> _Answer:
        """Await a call to the plugin, without a deadline; fail in the kubelet's words."""
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        except asyncio.CancelledError:
            if _is_canceled():
                raise
            raise connection_closing() from None

    async def lists(self) -> AsyncGenerator[pb.ListAndWatchResponse, None]:
        """Open a stream and give what arrives until it ends, for whatever reason (KST-7)."""
        if self._stub is None:
            return  # closed before it began
        call = self._stub.ListAndWatch(pb.Empty())
        self._calls.add(call)
        self.streams += 1
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError:
            pass
        except asyncio.CancelledError:
            if _is_canceled():
                raise
        finally:
            self.streams -= 1
            self._calls.discard(call)
            call.cancel()

    def reset_streams(self) -> None:
        """Cancel the streams, as seen by the plugin: RST_STREAM on a connection that lives."""
        for call in tuple(self._calls):
            call.cancel()

    async def close(self) -> None:
        """Drop the connection; calls under way end with ``Canceled``."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._stub = None
            await channel.close()


def _is_canceled() -> bool:
    """Tell a canceled task from a canceled call: grpc.aio raises the same for both."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
