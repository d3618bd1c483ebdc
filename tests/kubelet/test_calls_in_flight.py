"""A call in flight is answered before its server stops: a kubelet rejects a pod for good."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO, TYPE_CHECKING

import grpc
import pytest

from genericdp.host.workers import in_worker
from tests.world import World, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.world import Daemon

SERIAL = "example.com/serial"


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    world = World(short_folder)
    os.mkfifo(world.folder / "fifo")
    world.host.plug("ttyUSB0")
    async with world.kubelet:
        yield world


def hooked(world: World, *, timeout_seconds: int = 6) -> dict[str, object]:
    """Return a resource whose Allocate lasts until the FIFO is closed."""
    command = ["/bin/cat", str(world.folder / "fifo")]
    hook = {"exec": {"command": command}, "timeoutSeconds": timeout_seconds}
    return serial(hooks={"allocate": hook})


async def allocate(world: World) -> list[str] | str:
    """Return the device files that Allocate gives, or the text of its error."""
    try:
        answer = await world.allocated(SERIAL, ["ttyUSB0"])
    except grpc.aio.AioRpcError as error:
        return error.details() or ""
    return [device.host_path for one in answer.container_responses for device in one.devices]


@asynccontextmanager
async def allocating(
    world: World, daemon: Daemon
) -> AsyncIterator[tuple[asyncio.Task[list[str] | str], IO[bytes]]]:
    """Call Allocate; yield the call once its hook runs, and what ends the hook when closed."""
    await daemon.registered(SERIAL)
    await world.listed(SERIAL, "ttyUSB0")
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(allocate(world))
        with await in_worker(lambda: (world.folder / "fifo").open("wb")) as hook:
            yield call, hook


async def test_a_broken_stream_does_not_cut_off_an_allocate(world: World) -> None:
    async with (
        world.serving(hooked(world)) as daemon,
        allocating(world, daemon) as (call, hook),
    ):
        world.kubelet.break_streams(SERIAL)
        await daemon.shows(SERIAL, lambda found: not found["registered"])
        hook.close()
        assert await call == ["/dev/ttyUSB0"]
        registered = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: registered[SERIAL] == 2)


async def test_a_new_kubelet_does_not_cut_off_an_allocate(world: World) -> None:
    async with (
        world.serving(hooked(world)) as daemon,
        allocating(world, daemon) as (call, hook),
    ):
        await world.kubelet.restart()
        await daemon.shows(SERIAL, lambda found: not found["registered"])
        hook.close()
        assert await call == ["/dev/ttyUSB0"]
        registered = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: registered[SERIAL] == 2)


async def test_the_end_of_the_daemon_waits_for_an_allocate(world: World) -> None:
    async with AsyncExitStack() as running:
        daemon = await running.enter_async_context(world.serving(hooked(world)))
        async with allocating(world, daemon) as (call, hook), asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(running.aclose())
            await daemon.log.says("stopping: waiting for 1 call of the kubelet")
            assert not ending.done()
            hook.close()
            assert await call == ["/dev/ttyUSB0"]
    assert list(world.kubelet.folder.glob("genericdp-*")) == []


async def test_the_end_of_the_daemon_waits_no_longer_than_an_allocate_may_take(
    world: World,
) -> None:
    async with AsyncExitStack() as running:
        stuck = hooked(world, timeout_seconds=1)
        daemon = await running.enter_async_context(world.serving(stuck))
        async with allocating(world, daemon) as (call, _):
            await running.aclose()
            assert "its allocate hook /bin/cat took longer than 1 s" in await call


async def test_an_allocate_of_a_resource_that_is_removed_is_answered(world: World) -> None:
    async with (
        world.serving(hooked(world)) as daemon,
        allocating(world, daemon) as (call, hook),
    ):
        await daemon.takes(serial("example.com/elsewhere", nodeNames=["elsewhere"]))
        await world.listed(SERIAL)
        hook.close()
        assert "there is no device 'ttyUSB0'" in await call
