from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.config.load import load
from genericdp.discovery import discover
from genericdp.host.devicefiles import Looker
from genericdp.host.root import Root
from genericdp.kubelet.server import listening
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc as rpc
from genericdp.service import Service
from tests.health.made import no_hooks
from tests.world import Host, config, serial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from genericdp.devices.device import Device

NAME = "example.com/serial"


class Gate:
    """A look at nodes that hangs while the gate is shut, for one device."""

    def __init__(self, hanging: str) -> None:
        self._hanging = hanging
        self.begun = threading.Event()
        self.opened = threading.Event()
        self.looks: list[str] = []

    def look(self, _: Root, devices: Sequence[Device]) -> str:
        ids = " ".join(one.id for one in devices)
        self.looks.append(ids)
        self.begun.set()
        if self._hanging in ids:
            self.opened.wait(30)
        return ""


Allocate = Callable[..., Coroutine[None, None, object]]


@asynccontextmanager
async def served(
    folder: Path, gate: Gate, *, check_seconds: float = 0.1
) -> AsyncIterator[Allocate]:
    """Serve two devices, of which one hangs; yields Allocate."""
    host, file, socket = Host(folder / "host"), folder / "c.yaml", folder / "s"
    for name in ("ttyUSB0", "ttyUSB1"):
        host.plug(name)
    file.write_text(config(serial()))
    root = Root(host.folder)
    found = discover(load([file]).resources, Looker(root).look, node_name="n", previous={}, now=0.0)
    service = Service(
        NAME,
        root=root,
        look_again=lambda: None,
        hooks=no_hooks(),
        check=gate.look,
        check_seconds=check_seconds,
    )
    service.set_offer(found.offers[NAME])
    async with (
        listening(socket, service),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):

        async def allocate(*ids: str) -> object:
            one = api.ContainerAllocateRequest(devices_ids=ids)
            request = api.AllocateRequest(container_requests=[one])
            return await rpc.DevicePluginStub(channel).Allocate(request)

        try:
            yield allocate
        finally:
            gate.opened.set()


async def why_overdue(answer: Awaitable[object]) -> str | None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    return caught.value.details()


HANGS = f"{NAME}: looking at the nodes of ttyUSB0 does not end"


async def test_a_look_that_hangs_is_given_up(short_folder: Path) -> None:
    """ALL-4: the kubelet has no deadline, so Allocate has its own."""
    async with served(short_folder, Gate("ttyUSB0")) as allocate:
        assert await why_overdue(allocate("ttyUSB0")) == HANGS


async def test_a_device_whose_look_hangs_is_not_looked_at_once_more(short_folder: Path) -> None:
    """Each look that hangs holds a thread."""
    gate = Gate("ttyUSB0")
    async with served(short_folder, gate) as allocate:
        answers = [why_overdue(allocate("ttyUSB0")) for _ in range(10)]
        assert set(await asyncio.gather(*answers)) == {HANGS}
        assert gate.looks == ["ttyUSB0"]
        assert await why_overdue(allocate("ttyUSB0", "ttyUSB1")) == HANGS
        await allocate("ttyUSB1")
        assert gate.looks == ["ttyUSB0", "ttyUSB1"]


async def test_a_device_whose_look_has_ended_is_looked_at_afresh(short_folder: Path) -> None:
    """What a look that took long has found may be out of date."""
    gate = Gate("ttyUSB0")
    async with served(short_folder, gate, check_seconds=30) as allocate:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(allocate("ttyUSB0"))
            await asyncio.to_thread(gate.begun.wait, 30)
            gate.opened.set()
        assert gate.looks == ["ttyUSB0", "ttyUSB0"]
