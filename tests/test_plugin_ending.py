"""A plugin that is cancelled ends, in whatever moment that comes, and leaves no socket."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.host.root import Root
from genericdp.kubelet.folder import KubeletFolder, SocketIdentity
from genericdp.kubelet.registration import RegistrationError
from genericdp.kubelet.server import listening
from genericdp.kubelet.sockets import SocketNames
from genericdp.plugin import Plugin
from genericdp.service import Service
from tests.supervising import FAST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from genericdp.timing import Timing

SERIAL = "example.com/serial"
PATIENT = replace(FAST, first_retry=60.0, last_retry=60.0)


def service() -> Service:
    return Service(SERIAL, root=Root(Path("/")), look_again=lambda: None)


def waiting_kubelet(path: Path) -> KubeletFolder:
    folder = KubeletFolder(path)
    folder.socket.value = SocketIdentity(device=1, inode=1, ctime_ns=1)
    return folder


def plugin_for(
    folder: KubeletFolder, call: Callable[..., Awaitable[None]], timing: Timing = PATIENT
) -> Plugin:
    return Plugin(
        SERIAL, kubelet=folder, service=service(), names=SocketNames(), timing=timing, call=call
    )


@pytest.mark.parametrize("turns", range(6))
async def test_a_refusal_does_not_swallow_a_cancellation(short_folder: Path, turns: int) -> None:
    """Up to Python 3.12 a task group does if both come in one moment: SIGTERM would hang."""
    asked, answer = asyncio.Event(), asyncio.Event()

    async def refuse(folder: Path, **_: object) -> None:
        asked.set()
        await answer.wait()
        raise RegistrationError("refused")

    plugin = plugin_for(waiting_kubelet(short_folder), refuse)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(plugin.run())
        await asked.wait()
        answer.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait([running])


@pytest.mark.parametrize("turns", [*range(10), *range(10, 60, 5)])
async def test_no_moment_of_an_attempt_swallows_a_cancellation(
    short_folder: Path, turns: int
) -> None:
    async def hang(folder: Path, **_: object) -> None:
        await asyncio.Event().wait()

    await cancelled(plugin_for(waiting_kubelet(short_folder), hang), turns)
    assert list(short_folder.iterdir()) == []


async def test_a_cancellation_that_grpc_loses_is_heard_after_all(short_folder: Path) -> None:
    """A call that ends in the moment of the cancellation returns as if nothing had been."""
    asked = asyncio.Event()

    async def lose(folder: Path, **_: object) -> None:
        asked.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    timing = replace(PATIENT, stream=0.01)
    plugin = plugin_for(waiting_kubelet(short_folder), lose, timing)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(plugin.run())
        await asked.wait()
        running.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([running])
    assert running.cancelled()


@pytest.mark.parametrize("turns", range(10))
async def test_a_server_whose_start_is_cancelled_is_stopped(short_folder: Path, turns: int) -> None:
    """gRPC's own start, cancelled half-way, makes its stop fail, and SIGTERM was never heard."""

    async def serve() -> None:
        async with listening(short_folder / "s", service()):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve())
        for _ in range(turns):
            await asyncio.sleep(0)
        serving.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([serving])
    assert serving.cancelled()
    assert list(short_folder.iterdir()) == []


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_second_kubelet_may_come_while_the_call_to_the_first_is_given_up(
    short_folder: Path, turns: int
) -> None:
    """KST-3: two restarts in a moment ended the daemon: nothing may fail where a socket is told."""
    asked, calls = asyncio.Event(), 0

    async def hang(folder: Path, **_: object) -> None:
        nonlocal calls
        calls += 1
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _turn in range(4):  # as gRPC takes its time to close a connection
                await asyncio.sleep(0)

    folder = waiting_kubelet(short_folder)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(plugin_for(folder, hang).run())
        await asked.wait()
        asked.clear()
        folder.socket.value = SocketIdentity(device=1, inode=1, ctime_ns=2)
        for _ in range(turns):
            await asyncio.sleep(0)
        folder.socket.value = SocketIdentity(device=1, inode=1, ctime_ns=3)
        async with asyncio.timeout(30):
            await asked.wait()
        running.cancel()
    assert calls > 1


async def cancelled(plugin: Plugin, turns: int) -> None:
    """Cancel a plugin after so many turns of the loop, and wait for its end."""
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(plugin.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([running])
    assert running.cancelled()
