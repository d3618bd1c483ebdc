"""What one resource's probes and hooks do never delays those of another."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.errors import Outcome
from genericdp.health.execution import HookRunner
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from genericdp.kubelet.server import listening
from genericdp.kubelet.servicer import Servicer
from genericdp.prepare import CallTimeouts, Gate
from genericdp.simulator.pods import Container, Pod
from tests.world import Host, World, config, resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from genericdp.health.execution import RunCommand

R = "example.com/serial"
LONG_SECONDS = 30.0
"""The machine may be busy with something else."""


class Begun:
    """A FIFO that commands write a line to when they begin."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.command = ["/bin/sh", "-c", f"echo > {path}; exec sleep 60"]
        """Says that it has begun, and hangs."""
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._count = 0
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._fifo, self._read)

    def _read(self) -> None:
        self._count += len(os.read(self._fifo, 4096))
        self._more.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(LONG_SECONDS):
            while self._count < count:
                self._more.clear()
                await self._more.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fifo)
        os.close(self._fifo)


@contextmanager
def begun(folder: Path) -> Iterator[Begun]:
    made = Begun(folder / "begun")
    try:
        yield made
    finally:
        made.close()


async def test_an_allocate_hook_does_not_wait_for_hanging_pre_start_hooks(world: World) -> None:
    """32 of them made it miss its 9.5 s, and the pod was rejected for good."""
    many, kubelet = "example.com/many", world.kubelet
    container = Container(name="main", limits={many: 40})
    slow = Pod(uid="slow", containers=(container,))
    for number in range(40):
        world.host.plug(f"ttyACM{number}", major=166)
    world.host.plug("ttyUSB0")
    with begun(world.folder) as hanging:
        hangs = {"preStart": {"exec": {"command": hanging.command}, "timeoutSeconds": 25}}
        works = {"allocate": {"exec": {"command": ["/bin/true"]}}}
        async with (
            world.serving(
                resource(many, "/dev/ttyACM*", hooks=hangs),
                resource(R, "/dev/ttyUSB*", hooks=works),
            ),
            asyncio.TaskGroup() as tasks,
        ):
            await kubelet.wait_for(lambda: kubelet.allocatable(many) == 40)
            assert (await kubelet.admit(slow)).admitted
            start = tasks.create_task(kubelet.start_container(slow, container))
            await hanging.wait_for(32)
            await world.container("quick", serial=1)
            start.cancel()


async def test_hanging_probes_of_eight_resources_delay_no_probe_of_another(world: World) -> None:
    """Four of each took all 32 slots, and other probes waited for their timeouts."""
    for number in range(8):
        for digit in range(4):
            world.host.plug(f"ttyACM{number}{digit}", major=166)
    with begun(world.folder) as hanging:
        hung = {"exec": {"command": hanging.command}, "timeoutSeconds": 60, "periodSeconds": 60}
        hangs = [resource(f"example.com/h{i}", f"/dev/ttyACM{i}?", health=[hung]) for i in range(8)]
        works = resource(R, "/dev/ttyUSB*", health=[{"exec": {"command": ["/bin/true"]}}])
        async with world.serving(*hangs, works):
            await hanging.wait_for(32)
            world.host.plug("ttyUSB0")
            await world.listed(R, "ttyUSB0")


class Hanging:
    """Stands for commands: some hang until they are let go."""

    def __init__(self, *hang: str) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self._hang = hang

    async def __call__(
        self, argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        if argv[0] in self._hang:
            self.begun.set()
            await self.go.wait()
        return Outcome()


def away(node: Path) -> Path:
    return node.with_name("away")


def removing(node: Path) -> RunCommand:
    """Stand for a hook after which a device file is absent."""

    async def run(
        argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        node.rename(away(node))
        return Outcome()

    return run


@asynccontextmanager
async def calling(
    folder: Path,
    commands: RunCommand,
    timeouts: CallTimeouts,
    look_again: Callable[[], None] = lambda: None,
) -> AsyncIterator[tuple[Gate, rpc.DevicePluginAsyncStub]]:
    """A service of one device with both hooks, and a client of its socket."""
    host = Host(folder / "host")
    host.plug("ttyUSB0")
    hooks = {
        "allocate": {"exec": {"command": ["/bin/prepare"]}},
        "preStart": {"exec": {"command": ["/bin/reset"]}, "timeoutSeconds": 25},
    }
    (file := folder / "config.yaml").write_text(config(resource(R, "/dev/ttyUSB*", hooks=hooks)))
    resources = load([file]).resources
    root = Root(host.folder)
    found = decide(resources, HostCache(root), node_name="n", previous={}, now=0.0)
    gate = Gate(
        R,
        root=root,
        look_again=look_again,
        run_hooks=HookRunner(run=commands).run,
        timeouts=timeouts,
    )
    gate.set_devices(found.lists[R])
    socket = folder / "own.sock"
    async with (
        listening(socket, Servicer(gate)),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        yield gate, rpc.DevicePluginStub(channel)


ONE = api.AllocateRequest(
    container_requests=[api.ContainerAllocateRequest(devices_ids=["ttyUSB0"])]
)


async def refusal(client: rpc.DevicePluginAsyncStub) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.Allocate(ONE)
    return caught.value.code(), caught.value.details()


async def test_an_allocation_that_waits_for_a_hook_of_its_device_names_it(
    short_folder: Path,
) -> None:
    commands = Hanging("/bin/reset")
    async with calling(short_folder, commands, CallTimeouts(allocate=1.0)) as (_, client):
        started = client.PreStartContainer(api.PreStartContainerRequest(devices_ids=["ttyUSB0"]))
        await commands.begun.wait()
        assert await refusal(client) == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"{R}: Allocate took longer than 1 s:"
            " device ttyUSB0: its preStart hook /bin/reset has not ended",
        )
        commands.go.set()
        await started
        await client.Allocate(ONE)


async def test_an_allocation_whose_own_hook_does_not_end_names_it(short_folder: Path) -> None:
    commands, timeouts = Hanging("/bin/prepare"), CallTimeouts(allocate=0.1)
    async with calling(short_folder, commands, timeouts) as (_, client):
        assert await refusal(client) == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"{R}: Allocate took longer than 0.1 s:"
            " device ttyUSB0: its allocate hook /bin/prepare has not ended",
        )


async def test_a_node_absent_right_after_its_hook_is_looked_for_again_after_the_next_look(
    short_folder: Path,
) -> None:
    """The look changes no offer; only a changed one was waited for, and the pod was rejected."""
    node = short_folder / "host/dev/ttyUSB0"
    gate: Gate

    def look_again() -> None:
        away(node).rename(node)
        gate.set_devices(gate.devices)

    timeouts = CallTimeouts(device_return=LONG_SECONDS)
    async with calling(short_folder, removing(node), timeouts, look_again) as (gate, client):
        await client.Allocate(ONE)


async def test_a_node_absent_right_after_its_hook_is_looked_for_again_at_the_deadline(
    short_folder: Path,
) -> None:
    node = short_folder / "host/dev/ttyUSB0"

    def look_again() -> None:
        away(node).rename(node)

    timeouts = CallTimeouts(device_return=0.05)
    async with calling(short_folder, removing(node), timeouts, look_again) as (_, client):
        await client.Allocate(ONE)


async def test_a_node_that_stays_absent_after_its_hook_is_refused_with_the_reason(
    short_folder: Path,
) -> None:
    commands = removing(short_folder / "host/dev/ttyUSB0")
    timeouts = CallTimeouts(device_return=0.05)
    async with calling(short_folder, commands, timeouts) as (_, client):
        assert await refusal(client) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            f"{R}: after its allocate hook: device ttyUSB0: /dev/ttyUSB0 does not exist",
        )
