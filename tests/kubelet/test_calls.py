"""Calls to a plugin's socket that are malformed or very large, or whose device or hook hangs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.errors import Outcome
from genericdp.health.execution import HookRunner
from genericdp.host.cache import HostCache
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.server import SERVICE, listening
from genericdp.kubelet.servicer import Servicer
from genericdp.prepare import CallTimeouts, Gate

from tests.fixtures.hanging import HangingRoot
from tests.world import Host, config, serial

NAME = "example.com/serial"
NODE = "/dev/ttyUSB0"
MIB = 1024 * 1024
INVALID = grpc.StatusCode.INVALID_ARGUMENT
OVERDUE = grpc.StatusCode.DEADLINE_EXCEEDED
HOOKS = {
    "allocate": {"exec": {"command": ["/bin/prepare"]}},
    "preStart": {"exec": {"command": ["/bin/reset"]}, "timeoutSeconds": 25},
}


def allocate_request(*ids: str) -> bytes:
    container = api.ContainerAllocateRequest(devices_ids=ids)
    return api.AllocateRequest(container_requests=[container]).SerializeToString()


class Service:
    """The service of two devices, whose hooks are run by a test, without its socket."""

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

    def put_back(self) -> None:
        self.node.with_name("away").rename(self.node)

    @asynccontextmanager
    async def serving(
        self, timeouts: CallTimeouts | None = None, **keys: Any
    ) -> AsyncIterator[Gate]:
        """Serve the devices; keys are those of their resource."""
        gate = self.gate(timeouts or CallTimeouts(), **keys)
        servicer = Servicer(gate, gave=lambda shares: self.given.append([*shares]))
        servicer.set_devices(self.devices)
        anything = [("grpc.max_send_message_length", -1)]
        socket = self.directory / "s"
        async with (
            listening(socket, servicer),
            grpc.aio.insecure_channel(f"unix:{socket}", options=anything) as self.channel,
        ):
            yield gate

    async def call(self, method: str, request: bytes) -> bytes:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        call = self.channel.unary_unary(f"/{SERVICE}/{method}")
        return await call(request, timeout=60)

    async def allocate(self, *ids: str) -> bytes:
        return await self.call("Allocate", allocate_request(*ids))

    async def refusal(self, method: str, request: bytes) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.call(method, request)
        return caught.value.code(), caught.value.details() or ""

    async def allocate_refusal(self, *ids: str) -> tuple[grpc.StatusCode, str]:
        return await self.refusal("Allocate", allocate_request(*ids))


@pytest.fixture
async def service(short_directory: Path) -> AsyncIterator[Service]:
    made = Service(short_directory)
    yield made
    made.root.answer()


MALFORMED = (b"\x00\x00", b"\x08" + b"\xff" * 10, b"\x0a\x05ab")
UNKNOWN_FIELD = b"\xa2\x06\x01x"


@pytest.mark.parametrize(
    ("method", "no_utf8"),
    [("Allocate", b"\x0a\x04\x0a\x02\xff\xff"), ("PreStartContainer", b"\x0a\x02\xff\xff")],
)
async def test_a_malformed_request_is_an_error_and_the_next_one_is_answered(
    service: Service, method: str, no_utf8: bytes
) -> None:
    async with service.serving():
        for request in (*MALFORMED, no_utf8):
            code, said = await service.refusal(method, request)
            assert code is INVALID
            assert said.startswith(f"{NAME}: {method}Request cannot be parsed: ")
        assert await service.call(method, b"") == b""
        assert await service.call(method, UNKNOWN_FIELD) == b""


async def test_options_list_and_preference_need_no_request(service: Service) -> None:
    """PRF-4: an error of GetPreferredAllocation rejects the pod."""
    async with service.serving():
        for request in MALFORMED:
            assert await service.call("GetPreferredAllocation", request) == b""
        options = await service.call("GetDevicePluginOptions", b"\xff")
        assert api.DevicePluginOptions.FromString(options) == api.DevicePluginOptions()
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
        watch = service.channel.unary_stream(f"/{SERVICE}/ListAndWatch")
        stream = watch(b"\xff")
        first = api.ListAndWatchResponse.FromString(await anext(aiter(stream)))
        assert [device.ID for device in first.devices] == ["ttyUSB0", "ttyUSB1"]
        stream.cancel()


async def test_a_refused_allocate_has_the_device_looked_at_again(service: Service) -> None:
    """D4: the list is wrong then, and perhaps no event says so."""
    looks: list[str] = []
    service.look_again = lambda: looks.append("look")
    async with service.serving():
        await service.allocate("ttyUSB0")
        assert looks == []
        service.node.rename(service.node.with_name("away"))
        with pytest.raises(grpc.aio.AioRpcError, match="/dev/ttyUSB0 does not exist"):
            await service.allocate("ttyUSB0")
        assert looks == ["look"]


async def test_a_request_above_4_mib_is_refused_before_it_is_parsed(service: Service) -> None:
    """15 MB of empty names held up every resource for many seconds."""
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    async with service.serving():
        code, said = await service.allocate_refusal("x" * (5 * MIB))
        assert (code, "bytes: at most 4194304 are taken" in said) == (exhausted, True)
        assert (await service.allocate_refusal("x" * (17 * MIB)))[0] is exhausted
        assert (await service.allocate_refusal("x" * (4 * MIB - 100)))[0] is INVALID  # it is read
        many = [service.allocate_refusal("x" * (15 * MIB)) for _ in range(8)]
        assert {code for code, _ in await asyncio.gather(*many)} == {exhausted}
        assert await service.call("Allocate", b"") == b""
        preferring = api.PreferredAllocationRequest(
            container_requests=[
                api.ContainerPreferredAllocationRequest(
                    available_deviceIDs=["x" * MIB] * 15, allocation_size=1
                )
            ]
        )
        await service.call("GetPreferredAllocation", preferring.SerializeToString())


PROMPT = CallTimeouts(node_check=0.1)
HANGS = OVERDUE, f"{NAME}: reading the nodes of ttyUSB0 timed out"


async def test_a_look_that_hangs_is_given_up_and_not_begun_once_more(service: Service) -> None:
    """ALL-4: the kubelet has no deadline, so Allocate has its own. Each such look has a thread."""
    async with service.serving(PROMPT):
        service.root.hanging = {NODE}
        service.root.asked.clear()
        assert await service.allocate_refusal("ttyUSB0") == HANGS
        assert service.given == [["ttyUSB0"]], "an edit may be taken over meanwhile"
        refusals = [service.allocate_refusal("ttyUSB0") for _ in range(10)]
        assert set(await asyncio.gather(*refusals)) == {HANGS}
        assert await service.allocate_refusal("ttyUSB0", "ttyUSB1") == HANGS
        assert service.root.asked[NODE] == 1
        service.given.clear()
        await service.allocate("ttyUSB1")
        assert service.given == [["ttyUSB1"]] * 2, "when it is requested, and when it is given"


async def test_a_device_whose_look_has_ended_is_looked_at_afresh(service: Service) -> None:
    """The result of a slow read may be out of date."""
    async with service.serving(CallTimeouts(node_check=30.0)):
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


@pytest.fixture
def alarm() -> Iterator[None]:
    """End a test whose loop does nothing else any more."""

    def stop(*_: object) -> None:
        raise TimeoutError("the loop does nothing else")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
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

    for _ in range(50):
        ends.clear()
        async with asyncio.TaskGroup() as tasks:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(loop, "call_soon_threadsafe", tell_both)
                tasks.create_task(gate.prepare(["ttyUSB0"], (), {}))
                await ends.wait()
            devices = await gate.prepare(["ttyUSB0"], (), {})
            assert [device.id for device in devices] == ["ttyUSB0"]


async def test_an_allocation_that_a_hook_of_its_device_holds_up_names_it(service: Service) -> None:
    service.hanging = "/bin/reset"
    async with service.serving(CallTimeouts(allocate=1.0), hooks=HOOKS):
        request = api.PreStartContainerRequest(devices_ids=["ttyUSB0"]).SerializeToString()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(service.call("PreStartContainer", request))
            await service.begun.wait()
            assert await service.allocate_refusal("ttyUSB0") == (
                OVERDUE,
                f"{NAME}: Allocate took longer than 1 s:"
                " device ttyUSB0: its preStart hook /bin/reset has not ended",
            )
            service.go.set()
        await service.allocate("ttyUSB0")
        service.hanging = "/bin/prepare"
        service.go.clear()
        assert await service.allocate_refusal("ttyUSB0") == (
            OVERDUE,
            f"{NAME}: Allocate took longer than 1 s:"
            " device ttyUSB0: its allocate hook /bin/prepare has not ended",
        )


@pytest.mark.parametrize("seconds", [30.0, 0.05], ids=["after the next look", "at the deadline"])
async def test_a_node_absent_right_after_its_hook_is_looked_for_again(
    service: Service, seconds: float
) -> None:
    """The look changes no offer; only a changed one was waited for, and the pod was rejected."""
    service.is_removing = True
    async with service.serving(CallTimeouts(device_return=seconds), hooks=HOOKS) as gate:

        def look_again() -> None:
            service.put_back()
            if seconds > 1:
                gate.set_devices(gate.devices)

        service.look_again = look_again
        await service.allocate("ttyUSB0")


async def test_a_node_that_stays_absent_after_its_hook_is_refused_with_the_reason(
    service: Service,
) -> None:
    service.is_removing = True
    async with service.serving(CallTimeouts(device_return=0.05), hooks=HOOKS):
        assert await service.allocate_refusal("ttyUSB0") == (
            grpc.StatusCode.FAILED_PRECONDITION,
            f"{NAME}: after its allocate hook: device ttyUSB0: /dev/ttyUSB0 does not exist",
        )
