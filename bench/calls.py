"""A client that calls Allocate as the kubelet does: one container, one call after the other."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.kubelet.channels import channel
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import grpc

    from bench.sides import Plugin


@asynccontextmanager
async def allocating(plugin: Plugin) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Connect to the first resource; gives a call that takes its first device, in ms."""
    resource = plugin.resources[0]
    (path,) = plugin.kubelet.paths(resource)
    device = next(iter(plugin.kubelet.devices(resource)))
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=[device])]
    ).SerializeToString()
    async with channel(Path(path)) as plugins:
        await plugins.channel_ready()
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = plugins.unary_unary(
            "/v1beta1.DevicePlugin/Allocate"
        )

        async def allocate() -> float:
            begun = time.perf_counter()
            await call(request, timeout=10)
            return (time.perf_counter() - begun) * 1000

        yield allocate
