"""The life of a plugin, whose kubelet restarts, stands still, refuses or goes."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import IO, Any

import grpc
import pytest
from genericdp.host.workers import in_worker
from genericdp.kubelet.lifecycle import RegistrationTiming
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation

from tests.polling import others_run, poll_until
from tests.world import FAST, Daemon, World, resource, serial

pytestmark = pytest.mark.slow
every_generation = pytest.mark.parametrize("generation", Generation)

SERIAL = "example.com/serial"
PATIENT = replace(FAST, first_retry=60.0, last_retry=60.0, register=60.0, stream=60.0)
"""Waits this long between attempts that only an event can have ended the wait."""
CHANGES = 24
MANY, LONG = 1400, "an-adapter-with-an-id-of-more-than-fifty-bytes-$(device.name)"
"""Shares of each device: the lists take 30 MB together, more than gRPC's window ever grows to."""
AT_ONCE = 32
"""As many as register at once."""
FAILURES = 5
"""The wait after the last of them is 16 times the first one."""


def sockets(world: World) -> list[str]:
    return [path.name for path in world.kubelet.directory.glob("genericdp-*.sock")]


async def serves(world: World, daemon: Daemon, *devices: str) -> None:
    """Wait until the kubelet has these devices, by one stream."""
    await world.listed(SERIAL, *devices)
    await daemon.registered(SERIAL)
    await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1, 30)


async def plug(world: World, number: int) -> None:
    """Plug one more device in: what was underway before it is listed is over by then."""
    world.host.plug(f"ttyUSB{number}")
    await world.listed(SERIAL, *(f"ttyUSB{each_number}" for each_number in range(number + 1)))


@every_generation
@pytest.mark.parametrize("how", ["restart", "crash"])
async def test_a_new_kubelet_gets_the_list_at_once(world: World, how: str) -> None:
    """K2: a new kubelet.sock ends each wait, and pods that start then are served."""
    async with world.kubelet, world.serving(serial(), timing=PATIENT) as daemon:
        await daemon.registered(SERIAL)
        await (world.kubelet.stop() if how == "restart" else world.kubelet.crash())
        await daemon.log.says("registering again in")
        await world.kubelet.start()
        await world.listed(SERIAL, "ttyUSB0")
        assert (await world.container(serial=1)).env == {"SERIAL": "ttyUSB0"}


async def test_a_resource_that_is_refused_does_not_touch_the_others(world: World) -> None:
    """K6: one resource fails to register, for good: the others are served, and it is retried."""
    world.host.plug("ttyACM0", major=166)
    rare = replace(FAST, permanent_retry=0.3)
    modem = resource("example.com/modem", "/dev/ttyACM*")
    async with world.kubelet, world.serving(serial(), timing=rare) as daemon:
        await daemon.registered(SERIAL)
        world.kubelet.faults.refuse_register = 'the ResourceName "example.com/x" is invalid'
        await daemon.takes(modem, serial())
        await daemon.log.says("is invalid: registering again in 0.3 s")
        tried = world.kubelet.observed.registrations
        await world.kubelet.wait_for(lambda: tried["example.com/modem"] > 2)
        await plug(world, 1)
        assert tried[SERIAL] == 1
        world.kubelet.faults.refuse_register = None
        await world.listed("example.com/modem", "ttyACM0")


async def test_a_kubelet_frozen_within_register_completes_it_when_it_goes_on(world: World) -> None:
    """REG-2, REG-9c: the server keeps serving; the late registration is ours, with one stream."""
    async with world.kubelet:
        world.kubelet.freeze()
        async with world.serving(serial()) as daemon:
            await daemon.counts(SERIAL, 1)
            world.host.plug("ttyUSB1")
            await daemon.counts(SERIAL, 2)
            await poll_until(lambda: sockets(world))
            before = sockets(world)
            assert not (await daemon.resource(SERIAL))["registered"]
            world.kubelet.thaw()
            await serves(world, daemon, "ttyUSB0", "ttyUSB1")
            assert sockets(world) == before, "the same server"
            assert world.kubelet.observed.registrations[SERIAL] == 1


async def test_a_kubelet_frozen_amid_the_lists_gets_the_latest_when_it_goes_on(
    world: World,
) -> None:
    """LAW-2, KST-9: no second registration, and not every list that it has missed."""
    async with world.kubelet, world.serving(serial(replicas=MANY, id=LONG)) as daemon:
        await daemon.registered(SERIAL)
        world.kubelet.freeze()
        for number in range(1, CHANGES + 1):
            world.host.plug(f"ttyUSB{number}")
            await daemon.counts(SERIAL, number + 1)
        lists, total = world.kubelet.observed.lists[SERIAL], MANY * (CHANGES + 1)
        world.kubelet.thaw()
        await world.kubelet.wait_for(lambda: world.kubelet.allocatable(SERIAL) == total, 30)
        assert world.kubelet.observed.lists[SERIAL] - lists < CHANGES
        assert world.kubelet.observed.registrations[SERIAL] == 1


async def test_kubelets_that_are_away_for_long_are_no_work_of_another_plugin(world: World) -> None:
    """K3, found by the soak: three restarts within seconds said so, and then each cost seconds."""
    patient = replace(FAST, last_retry=60.0)
    async with world.kubelet, world.serving(serial(), timing=patient) as daemon:
        for number in range(1, 5):
            await serves(world, daemon, "ttyUSB0")
            await world.kubelet.stop()
            await daemon.log.says("registering again in", times=number)
            await asyncio.sleep(0.2)  # noqa: TID251 -- more than the pause, of which nothing shows the end
            await world.kubelet.start()
            await world.listed(SERIAL, "ttyUSB0")
        await daemon.registered(SERIAL)
        assert daemon.log.count("another device plugin may serve") == 0
        paths = world.kubelet.paths(SERIAL)
        world.kubelet.break_streams(SERIAL)
        await world.kubelet.wait_for(lambda: world.kubelet.paths(SERIAL) not in {(), paths})
        await world.listed(SERIAL, "ttyUSB0")


@pytest.mark.parametrize(
    ("attempts", "conflict", "seconds"),
    [(1, False, 0.2), (2, False, 0.4), (6, False, 5.0), (6, True, 6.4), (10**9, True, 30.0)],
)
def test_delays_are_doubled_up_to_a_limit(attempts: int, conflict: bool, seconds: float) -> None:
    assert RegistrationTiming().retry_delay(attempts, conflict=conflict) == pytest.approx(seconds)


@every_generation
@pytest.mark.parametrize("honours_cancel", [False, True])
async def test_a_register_that_is_given_up_is_tried_again(
    world: World, honours_cancel: bool
) -> None:
    """REG-3: whatever the kubelet makes of the first call afterwards."""
    world.kubelet.faults.honours_cancel = honours_cancel
    world.kubelet.faults.register_delay_seconds = 0.3
    async with world.kubelet, world.serving(serial(), timing=replace(FAST, register=0.1)):
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 2)
        world.kubelet.faults.register_delay_seconds = 0.0
        await world.listed(SERIAL, "ttyUSB0")
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1)


async def test_a_kubelet_that_opens_no_stream_is_asked_again(world: World) -> None:
    """REG-12: a registration without a stream has failed."""
    world.kubelet.faults.stream_delay_seconds = 3600.0
    async with world.kubelet, world.serving(serial(), timing=replace(FAST, stream=0.05)):
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 1)
        world.kubelet.faults.stream_delay_seconds = 0.0
        await world.listed(SERIAL, "ttyUSB0")


@pytest.mark.parametrize("how", ["dies", "is left alive", "is frozen and dies"])
async def test_a_hanging_register_ends_when_the_kubelet_is_replaced(world: World, how: str) -> None:
    """KST-3: the wait for a lost answer ends with the kubelet that owes it, at the latest."""
    other = Kubelet(world.kubelet.directory, generation=world.kubelet.generation)
    async with AsyncExitStack() as kubelets, world.serving(serial(), timing=PATIENT) as daemon:
        await daemon.counts(SERIAL, 1)
        world.kubelet.faults.register_delay_seconds = 3600.0
        await kubelets.enter_async_context(world.kubelet)
        if how == "is frozen and dies":
            world.kubelet.freeze()
        else:
            await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] == 1)
        if how != "is left alive":
            await world.kubelet.crash()
        await kubelets.enter_async_context(other)
        await other.wait_for(lambda: other.allocatable(SERIAL) == 1)


async def fails(daemon: Daemon, times: int) -> None:
    """Wait until the metrics have this many failed registrations."""
    name = "registrations_total{example.com/serial,failure}"
    await daemon.counts_so(lambda found: found.get(name, 0) >= times)


async def test_a_new_socket_is_tried_again_soon_however_long_the_last_one_was_dead(
    world: World,
) -> None:
    """K2: a kubelet that was killed leaves its socket; the next one binds before it listens."""
    path = world.kubelet.directory / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as other:
        dead.bind(str(path))
        timing = replace(FAST, first_retry=0.02, last_retry=60.0)
        async with world.serving(serial(), timing=timing) as daemon:
            await fails(daemon, FAILURES)
            other.bind(str(path.with_name("new.sock")))
            path.with_name("new.sock").rename(path)
            await fails(daemon, FAILURES + 3)
            world.kubelet.faults.refuse_register = "not now"
            async with world.kubelet:
                line = await daemon.log.says("not now")
    assert line.endswith(": registering again in 0.0 s")


async def test_registrations_that_hang_keep_no_other_one_waiting(world: World) -> None:
    """K6: a kubelet that hangs for 31 resources is requested one more."""
    kubelet = world.kubelet
    kubelet.faults.register_delay_seconds = 3600.0
    resources = [resource(f"example.com/r{number}", "/dev/none") for number in range(AT_ONCE)]
    async with kubelet, world.serving(*resources, timing=replace(FAST, register=600.0)):
        await kubelet.wait_for(lambda: len(kubelet.observed.registrations) == AT_ONCE, 30)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 6, 10, 20])
@pytest.mark.parametrize("how", ["hangs", "refuses", "opens no stream", "takes it"])
async def test_no_moment_of_a_registration_keeps_the_daemon_from_ending(
    world: World, how: str, turns: int
) -> None:
    """Up to Python 3.12 a task group may swallow a cancellation that comes with a failure."""
    faults = world.kubelet.faults
    faults.register_delay_seconds = 3600.0 if how == "hangs" else 0.0
    faults.refuse_register = "no such luck" if how == "refuses" else None
    faults.stream_delay_seconds = 0.0 if how == "takes it" else 3600.0
    async with world.kubelet, asyncio.timeout(60):
        async with world.serving(serial(), timing=PATIENT):
            tried = world.kubelet.observed.registrations
            await world.kubelet.wait_for(lambda: tried[SERIAL] == 1, 30)
            for _ in range(turns):
                await others_run()
        assert sockets(world) == []


@pytest.mark.parametrize("turns", [0, 2, 4, 8, 16, 32, 64, 128, 256])
async def test_no_moment_of_the_start_keeps_the_daemon_from_ending(
    world: World, turns: int
) -> None:
    """gRPC's own start, canceled half-way, made its stop fail, and SIGTERM was never heard."""
    async with world.kubelet, asyncio.timeout(60):
        async with world.serving(serial(), timing=PATIENT):
            for _ in range(turns):
                await others_run()
        assert sockets(world) == []


Call = asyncio.Task[list[str] | str]


class Hooked:
    """A resource whose Allocate lasts until a FIFO is closed: a kubelet rejects a pod for good."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._fifo = world.directory / "fifo"
        os.mkfifo(self._fifo)

    def resource(self, timeout_seconds: int = 6, **keys: str) -> dict[str, object]:
        command = ["/bin/cat", str(self._fifo)]
        hook = {"exec": {"command": command}, "timeoutSeconds": timeout_seconds}
        return {**serial(hooks={"allocate": hook}), **keys}

    async def _allocate(self) -> list[str] | str:
        """Return the device files that Allocate gives, or the text of its error."""
        try:
            answer = await self.world.allocated(SERIAL, ["ttyUSB0"])
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
        return [node.host_path for given in answer.container_responses for node in given.devices]

    @asynccontextmanager
    async def allocating(self, daemon: Daemon) -> AsyncIterator[tuple[Call, IO[bytes]]]:
        """Call Allocate; yield the call once its hook runs, and what ends the hook when closed."""
        await daemon.registered(SERIAL)
        await self.world.listed(SERIAL, "ttyUSB0")
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(self._allocate())
            with await in_worker(lambda: self._fifo.open("wb")) as hook:
                yield call, hook


@pytest.fixture
async def hooked(world: World) -> AsyncIterator[Hooked]:
    async with world.kubelet:
        yield Hooked(world)


async def _break(hooked: Hooked, daemon: Daemon) -> None:
    hooked.world.kubelet.break_streams(SERIAL)


async def _restart(hooked: Hooked, daemon: Daemon) -> None:
    await hooked.world.kubelet.restart()


async def _take_other_options(hooked: Hooked, daemon: Daemon) -> None:
    await daemon.takes(hooked.resource(prefer="none"))


@pytest.mark.parametrize(
    "disturb", [_break, _restart, _take_other_options], ids=["stream", "kubelet", "options"]
)
async def test_no_new_registration_cuts_off_an_allocate(
    hooked: Hooked, disturb: Callable[[Hooked, Daemon], Coroutine[Any, Any, None]]
) -> None:
    """It failed with "Cancelling all calls", and its pod was rejected for good."""
    async with (
        hooked.world.serving(hooked.resource()) as daemon,
        hooked.allocating(daemon) as (call, hook),
    ):
        await disturb(hooked, daemon)
        await daemon.shows(SERIAL, lambda found: not found["registered"])
        hook.close()
        assert await call == ["/dev/ttyUSB0"]
        await daemon.registered(SERIAL)
        assert hooked.world.kubelet.observed.registrations[SERIAL] == 2


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "takes too long"])
async def test_the_end_of_the_daemon_waits_for_an_allocate(hooked: Hooked, ends: bool) -> None:
    async with AsyncExitStack() as running:
        resource = hooked.resource(timeout_seconds=6 if ends else 1)
        daemon = await running.enter_async_context(hooked.world.serving(resource))
        async with hooked.allocating(daemon) as (call, hook), asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(running.aclose())
            await daemon.log.says("stopping: waiting for 1 call of the kubelet")
            assert not ending.done()
            if ends:
                hook.close()
                assert await call == ["/dev/ttyUSB0"]
            else:
                assert "its allocate hook /bin/cat took longer than 1 s" in await call
    assert sockets(hooked.world) == []
