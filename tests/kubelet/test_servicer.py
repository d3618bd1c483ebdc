"""Allocate where a look at a device's nodes hangs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from genericdp.kubelet.server import listening
from genericdp.kubelet.servicer import Servicer
from genericdp.prepare import CallTimeouts, Gate
from tests.fixtures.hanging import HangingRoot
from tests.health.probed_devices import no_hooks
from tests.world import Host, config, serial

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.devicelist import DeviceList

NAME = "example.com/serial"
FILE = "/dev/ttyUSB0"
PROMPT = CallTimeouts(node_check=0.1)

Allocate = Callable[..., Coroutine[None, None, object]]


def gate_of(folder: Path, timeouts: CallTimeouts) -> tuple[Gate, HangingRoot, DeviceList]:
    """Return the gate of two devices, their root, where one will hang, and their list."""
    host, file = Host(folder / "host"), folder / "c.yaml"
    for name in ("ttyUSB0", "ttyUSB1"):
        host.plug(name)
    file.write_text(config(serial()))
    root = HangingRoot(host.folder)
    found = decide(load([file]).resources, HostCache(root), node_name="n", previous={}, now=0.0)
    gate = Gate(NAME, root=root, look_again=lambda: None, run_hooks=no_hooks(), timeouts=timeouts)
    return gate, root, found.lists[NAME]


@asynccontextmanager
async def served(
    folder: Path,
    timeouts: CallTimeouts = PROMPT,
    gave: Callable[[Iterable[str]], None] = lambda _: None,
) -> AsyncIterator[tuple[HangingRoot, Allocate]]:
    """Serve two devices; yield their root, where one will hang, and Allocate."""
    socket = folder / "s"
    gate, root, devices = gate_of(folder, timeouts)
    servicer = Servicer(gate, gave=gave)
    servicer.set_devices(devices)
    async with (
        listening(socket, servicer),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):

        async def allocate(*ids: str) -> object:
            one = api.ContainerAllocateRequest(devices_ids=ids)
            request = api.AllocateRequest(container_requests=[one])
            return await rpc.DevicePluginStub(channel).Allocate(request)

        try:
            yield root, allocate
        finally:
            root.answer()


async def why_overdue(answer: Awaitable[object]) -> str | None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    return caught.value.details()


HANGS = f"{NAME}: looking at the nodes of ttyUSB0 does not end"


async def test_a_look_that_hangs_is_given_up(short_folder: Path) -> None:
    """ALL-4: the kubelet has no deadline, so Allocate has its own."""
    async with served(short_folder) as (root, allocate):
        root.hanging = {FILE}
        assert await why_overdue(allocate("ttyUSB0")) == HANGS


async def test_a_device_counts_as_given_from_when_it_is_asked_for(short_folder: Path) -> None:
    """An edit of the config may be taken over while Allocate still looks at its nodes."""
    given: list[list[str]] = []
    async with served(short_folder, gave=lambda shares: given.append([*shares])) as answers:
        root, allocate = answers
        root.hanging = {FILE}
        assert await why_overdue(allocate("ttyUSB0")) == HANGS
        assert given == [["ttyUSB0"]]
        await allocate("ttyUSB1")
        assert given[1:] == [["ttyUSB1"], ["ttyUSB1"]]


async def test_a_device_whose_look_hangs_is_not_looked_at_once_more(short_folder: Path) -> None:
    """Each look that hangs holds a thread."""
    async with served(short_folder) as (root, allocate):
        root.hanging = {FILE}
        root.asked.clear()
        answers = [why_overdue(allocate("ttyUSB0")) for _ in range(10)]
        assert set(await asyncio.gather(*answers)) == {HANGS}
        assert await why_overdue(allocate("ttyUSB0", "ttyUSB1")) == HANGS
        assert root.asked[FILE] == 1
        await allocate("ttyUSB1")


async def test_a_device_whose_look_has_ended_is_looked_at_afresh(short_folder: Path) -> None:
    """What a look that took long has found may be out of date."""
    async with served(short_folder, CallTimeouts(node_check=30.0)) as (root, allocate):
        root.asked.clear()
        await allocate("ttyUSB0")
        once = root.asked[FILE]
        root.hanging = {FILE}
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(allocate("ttyUSB0"))
            await asyncio.to_thread(root.begun.wait, 30)
            root.answer()
        assert root.asked[FILE] == 3 * once


async def test_a_call_at_the_moment_when_a_check_ends_does_not_stop_the_loop(
    short_folder: Path,
) -> None:
    """It waited for the end of a check that had ended, and nothing else ran any more."""
    gate, root, devices = gate_of(short_folder, CallTimeouts())
    gate.set_devices(devices)
    loop, ends = asyncio.get_running_loop(), asyncio.Event()
    tell = loop.call_soon_threadsafe

    def tell_both(*call: Any, **options: Any) -> asyncio.Handle:
        tell(ends.set)  # the next call goes on in the turn after the end of the check
        return tell(*call, **options)

    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        for _ in range(50):
            ends.clear()
            async with asyncio.TaskGroup() as tasks:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(loop, "call_soon_threadsafe", tell_both)
                    tasks.create_task(gate.prepare(["ttyUSB0"], (), {}))
                    await ends.wait()
                assert [it.id for it in await gate.prepare(["ttyUSB0"], (), {})] == ["ttyUSB0"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        root.answer()


def _stop(*_: object) -> None:
    raise TimeoutError("the loop does nothing else")
