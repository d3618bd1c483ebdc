"""Registrations with a kubelet that is dead, refuses or hangs, and the delays between them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import grpc

from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from tests.world import FAST, PATIENCE_SECONDS, World, resource, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.world import Daemon

MANY = 32
"""As many as register at once."""
FAILURES = 10
"""The wait after the last of them is 512 times the first one, at most 1,024 times."""


class Refusing(rpc.RegistrationServicer):
    """A kubelet that takes nothing."""

    async def Register(self, request: api.RegisterRequest, context: _Context) -> NoReturn:
        await context.abort(grpc.StatusCode.UNKNOWN, "not now")


class Hanging(rpc.RegistrationServicer):
    """A kubelet that never answers."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self._more = asyncio.Event()

    async def Register(self, request: api.RegisterRequest, context: _Context) -> api.Empty:
        self.asked.add(request.resource_name)
        self._more.set()
        await asyncio.Event().wait()
        return api.Empty()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.asked) < count:
                self._more.clear()
                await self._more.wait()


_Context = grpc.aio.ServicerContext[api.RegisterRequest, api.Empty]


@asynccontextmanager
async def listening(folder: Path, servicer: rpc.RegistrationServicer) -> AsyncIterator[None]:
    """Serve at ``kubelet.sock``, which takes the place of what is there."""
    server = grpc.aio.server()
    rpc.add_RegistrationServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{folder}/next.sock")
    await server.start()
    (folder / "next.sock").rename(folder / "kubelet.sock")
    try:
        yield
    finally:
        await server.stop(None)


async def fails(daemon: Daemon, times: int) -> None:
    """Wait until the metrics have so many failed registrations."""
    name = "registrations_total{example.com/serial,failure}"
    await daemon.counts_so(lambda found: found.get(name, 0) >= times)


async def test_a_new_socket_is_tried_again_soon_however_long_the_last_one_was_dead(
    short_folder: Path,
) -> None:
    """K2: a kubelet that was killed leaves its socket; the waits for it are not the next one's."""
    world = World(short_folder)
    folder = world.kubelet.folder
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "kubelet.sock"))
        timing = replace(FAST, first_retry=0.001, last_retry=60.0)
        async with world.serving(serial(), timing=timing) as daemon:
            await fails(daemon, FAILURES)
            async with listening(folder, Refusing()):
                line = await daemon.log.says("not now")
    assert line.endswith(": registering again in 0.0 s")


async def test_a_socket_that_does_not_listen_yet_is_tried_again_soon(short_folder: Path) -> None:
    """K2: one that was killed leaves its socket; the next one binds before it listens."""
    world = World(short_folder)
    path = world.kubelet.folder / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as other:
        dead.bind(str(path))
        timing = replace(FAST, first_retry=0.02, last_retry=60.0)
        async with world.serving(serial(), timing=timing) as daemon:
            await fails(daemon, FAILURES - 1)  # the next delays would be 5 s, 10 s, 20 s
            other.bind(str(path.with_name("new.sock")))
            path.with_name("new.sock").rename(path)
            await fails(daemon, FAILURES + 4)


async def test_registrations_that_hang_keep_no_other_one_waiting(short_folder: Path) -> None:
    """K6: a kubelet that hangs for 31 resources is asked for one more."""
    world, hanging = World(short_folder), Hanging()
    resources = [resource(f"example.com/r{number}", "/dev/none") for number in range(MANY)]
    patient = replace(FAST, register=600.0)
    async with (
        listening(world.kubelet.folder, hanging),
        world.serving(*resources, timing=patient),
    ):
        await hanging.until(MANY)
