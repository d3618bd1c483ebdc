"""A client that calls a plugin as the kubelet does: one container, one call after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.kubelet.registration import channel
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import grpc

    from bench.sides import Plugin


Call = Callable[[], Awaitable[float]]
"""Gives how long it took, in milliseconds."""


@asynccontextmanager
async def allocating(plugin: Plugin) -> AsyncIterator[Call]:
    """Connect to the first resource; gives a call that takes its first device."""
    device = min(plugin.kubelet.devices(plugin.resources[0]))
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=[device])]
    )
    async with _calling(plugin, "Allocate", request.SerializeToString()) as call:
        yield call


@asynccontextmanager
async def preferring(plugin: Plugin, size: int) -> AsyncIterator[Call]:
    """Connect to the first resource; gives a call that asks which devices are preferred."""
    devices = sorted(plugin.kubelet.devices(plugin.resources[0]))
    wish = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=devices, allocation_size=size
    )
    request = api.PreferredAllocationRequest(container_requests=[wish])
    async with _calling(plugin, "GetPreferredAllocation", request.SerializeToString()) as call:
        yield call


@asynccontextmanager
async def _calling(plugin: Plugin, method: str, request: bytes) -> AsyncIterator[Call]:
    (path,) = plugin.kubelet.paths(plugin.resources[0])
    async with channel(Path(path)) as plugins:
        await plugins.channel_ready()
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = plugins.unary_unary(
            f"/v1beta1.DevicePlugin/{method}"
        )

        async def timed() -> float:
            begun = time.perf_counter()
            await call(request, timeout=10)
            return (time.perf_counter() - begun) * 1000

        yield timed


async def block(call: Call, calls: int, *, at_once: int = 1) -> list[float]:
    """Make so many calls; each of ``at_once`` callers makes one after the other."""
    took: list[float] = []

    async def caller() -> None:
        took.extend([await call() for _ in range(calls // at_once)])

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(caller())
    return took


async def block_while(call: Call, goes_on: Callable[[], bool]) -> list[float]:
    """Make one call after the other, at least one, for as long as something goes on."""
    took = [await call()]
    while goes_on():
        took.append(await call())
    return took


async def block_for(call: Call, seconds: float) -> list[float]:
    """Make one call after the other for so long."""
    until = time.monotonic() + seconds
    return await block_while(call, lambda: time.monotonic() < until)
