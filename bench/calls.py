"""A client that calls Allocate as the kubelet does: one container, one call after the other."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bench.sides import Plugin

_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


@asynccontextmanager
async def allocating(plugin: Plugin) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Connect to the first resource; gives a call that takes its first device, in ms."""
    resource = plugin.resources[0]
    (path,) = plugin.kubelet.paths(resource)
    device = next(iter(plugin.kubelet.devices(resource)))
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=[device])]
    ).SerializeToString()
    async with grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS) as channel:
        await channel.channel_ready()
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/v1beta1.DevicePlugin/Allocate"
        )

        async def allocate() -> float:
            begun = time.perf_counter()
            await call(request, timeout=10)
            return (time.perf_counter() - begun) * 1000

        yield allocate
