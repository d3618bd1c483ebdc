"""Calls to a plugin's socket that are very large, or whose device or hook hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.errors import Outcome
from genericdp.gate import CallTimeouts, Gate
from genericdp.health.execution import HookRunner
from genericdp.host.cache import HostCache
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.server import SERVICE, listening
from genericdp.kubelet.servicer import Servicer

from tests.fixtures.hanging import HangingRoot
from tests.world import Host, config, serial

NAME = "example.com/serial"
NODE = "/dev/ttyUSB0"
MIB = 1024 * 1024
OVERDUE = grpc.StatusCode.DEADLINE_EXCEEDED
HOOKS = {
    "allocate": {"exec": {"command": ["/bin/prepare"]}},
    "preStart": {"exec": {"command": ["/bin/reset"]}, "timeoutSeconds": 25},
}


class Service:
    """The service of two devices, whose hooks are run by a test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        host = Host(directory / "host")
        for name in ("ttyUSB0", "ttyUSB1"):
            host.plug(name)
        self.root = HangingRoot(host.directory)
        self.node = host.directory / NODE[1:]
        self.hanging = ""
        """The program of the hook that hangs until it may go on."""
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.is_removing = False
        """Whether the device file is absent after a hook."""
        self.look_again: Callable[[], None] = lambda: None
        self.given: list[list[str]] = []

    def gate(self, timeouts: CallTimeouts, **keys: Any) -> Gate:
        (file := self.directory / "config.yaml").write_text(config(serial(**keys)))
        resources = load([file]).resources
        found = decide(resources, HostCache(self.root), node_name="n", previous={}, now=0.0)
        self.devices = found.lists[NAME]
        return Gate(
            NAME,
            root=self.root,
            look_again=lambda: self.look_again(),
            run_hooks=HookRunner(self._run).run,
            timeouts=timeouts,
        )

    async def _run(self, argv: Any, env: Any, *, timeout_seconds: float) -> Outcome:
        if argv[0] == self.hanging:
            self.begun.set()
            await self.go.wait()
        if self.is_removing:
            self.node.rename(self.node.with_name("away"))
        return Outcome()

    @asynccontextmanager
    async def serving(self, *, hooks: Any = None, **timeouts: float) -> AsyncIterator[Gate]:
        gate = self.gate(CallTimeouts(**timeouts), **({"hooks": hooks} if hooks else {}))
        servicer = Servicer(gate, gave=lambda shares: self.given.append([*shares]))
        servicer.set_devices(self.devices)
        anything = [("grpc.max_send_message_length", -1)]
        socket = self.directory / "s"
        async with (
            listening(socket, servicer),
            grpc.aio.insecure_channel(f"unix:{socket}", options=anything) as self.channel,
        ):
            yield gate

    async def call(self, method: str, request: Any) -> bytes:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        call = self.channel.unary_unary(f"/{SERVICE}/{method}")
        return await call(request.SerializeToString(), timeout=60)

    async def allocate(self, *ids: str) -> bytes:
        asked = [api.ContainerAllocateRequest(devices_ids=ids)] if ids else []
        return await self.call("Allocate", api.AllocateRequest(container_requests=asked))

    async def refusal(self, *ids: str) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.allocate(*ids)
        return caught.value.code(), caught.value.details() or ""


@pytest.fixture
async def service(short_directory: Path) -> AsyncIterator[Service]:
    made = Service(short_directory)
    yield made
    made.root.answer()


async def test_a_refused_allocate_has_the_device_looked_at_again(service: Service) -> None:
    """D4: the list is wrong then, and perhaps no event says so."""
    looks: list[str] = []
    service.look_again = lambda: looks.append("look")
    async with service.serving():
        await service.allocate("ttyUSB0")
        assert looks == []
        service.node.rename(service.node.with_name("away"))
        _, said = await service.refusal("ttyUSB0")
        assert "/dev/ttyUSB0 does not exist" in said
        assert looks == ["look"]


async def test_a_request_above_4_mib_is_refused_before_it_is_parsed(service: Service) -> None:
    """15 MB of empty names held up every resource for many seconds."""
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    async with service.serving():
        code, said = await service.refusal("x" * (5 * MIB))
        assert (code, "bytes: at most 4194304 are taken" in said) == (exhausted, True)
        assert (await service.refusal("x" * (17 * MIB)))[0] is exhausted
        code, _ = await service.refusal("x" * (4 * MIB - 100))
        assert code is grpc.StatusCode.INVALID_ARGUMENT, "it is read"
        assert await service.allocate() == b""
        wish = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=["x" * MIB] * 15, allocation_size=1
        )
        request = api.PreferredAllocationRequest(container_requests=[wish])
        await service.call("GetPreferredAllocation", request)


async def test_a_look_that_hangs_is_given_up_and_not_begun_once_more(service: Service) -> None:
    """ALL-4: the kubelet has no deadline, so Allocate has its own. Each such look has a thread."""
    hangs = OVERDUE, f"{NAME}: reading the nodes of ttyUSB0 timed out"
    async with service.serving(node_check=0.1):
        service.root.hanging = {NODE}
        service.root.asked.clear()
        assert await service.refusal("ttyUSB0") == hangs
        assert service.given == [["ttyUSB0"]], "an edit may be taken over meanwhile"
        refusals = [service.refusal("ttyUSB0") for _ in range(10)]
        assert set(await asyncio.gather(*refusals)) == {hangs}
        assert await service.refusal("ttyUSB0", "ttyUSB1") == hangs
        assert service.root.asked[NODE] == 1
        service.given.clear()
        await service.allocate("ttyUSB1")
        assert service.given == [["ttyUSB1"]] * 2, "when it is requested, and when it is given"


async def test_a_device_whose_look_has_ended_is_looked_at_afresh(service: Service) -> None:
    """The result of a slow read may be out of date."""
    async with service.serving(node_check=30.0):
        service.root.asked.clear()
        await service.allocate("ttyUSB0")
        once = service.root.asked[NODE]
        service.root.hanging = {NODE}
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(service.allocate("ttyUSB0"))
            await asyncio.to_thread(service.root.begun.wait, 30)
            service.root.answer()
        assert service.root.asked[NODE] == 3 * once


async def test_a_call_at_the_moment_when_a_check_ends_does_not_stop_the_loop(
    service: Service,
) -> None:
    """It waited for the end of a check that had ended, and nothing else ran any more."""
    gate = service.gate(CallTimeouts())
    gate.set_devices(service.devices)
    loop, ends = asyncio.get_running_loop(), asyncio.Event()
    tell = loop.call_soon_threadsafe

    def tell_both(*call: Any, **options: Any) -> asyncio.Handle:
        tell(ends.set)  # the next call continues in the turn after the end of the check
        return tell(*call, **options)

    async with asyncio.TaskGroup() as tasks:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_soon_threadsafe", tell_both)
            tasks.create_task(gate.admit(["ttyUSB0"], (), {}))
            await ends.wait()
        devices = await gate.admit(["ttyUSB0"], (), {})
        assert [device.id for device in devices] == ["ttyUSB0"]


async def test_an_allocation_that_a_hook_of_its_device_holds_up_names_it(service: Service) -> None:
    late = f"{NAME}: Allocate took longer than 0.3 s: device ttyUSB0: its "
    async with service.serving(allocate=0.3, hooks=HOOKS):
        service.hanging = "/bin/reset"
        request = api.PreStartContainerRequest(devices_ids=["ttyUSB0"])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(service.call("PreStartContainer", request))
            await service.begun.wait()
            held_up = OVERDUE, f"{late}preStart hook /bin/reset has not ended"
            assert await service.refusal("ttyUSB0") == held_up
            service.hanging = "/bin/prepare"
            service.go.set()
        service.go.clear()
        held_up = OVERDUE, f"{late}allocate hook /bin/prepare has not ended"
        assert await service.refusal("ttyUSB0") == held_up


@pytest.mark.parametrize("seconds", [30.0, 0.05], ids=["after the next look", "at the deadline"])
async def test_a_node_absent_right_after_its_hook_is_looked_for_again(
    service: Service, seconds: float
) -> None:
    """The look changes no offer; only a changed one was waited for, and the pod was rejected."""
    service.is_removing = True
    async with service.serving(device_return=seconds, hooks=HOOKS) as gate:

        def look_again() -> None:
            service.node.with_name("away").rename(service.node)
            if seconds > 1:
                gate.set_devices(gate.devices)

        service.look_again = look_again
        await service.allocate("ttyUSB0")
        if seconds < 1:
            service.look_again = lambda: None
            assert await service.refusal("ttyUSB0") == (
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{NAME}: after its allocate hook: device ttyUSB0: /dev/ttyUSB0 does not exist",
            )
