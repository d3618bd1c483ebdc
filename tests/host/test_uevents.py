"""Events of the kernel, which only root can make it show."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import shutil
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from genericdp.host.events import Uevent, Uevents, open_monitor, uevent_of

from tests.polling import others_run, poll_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import pyudev


NULL = "/sys/devices/virtual/mem/null"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the kernel show events")


class Heard:
    """Uevents that are written down."""

    def __init__(self, open_monitor: Callable[[], pyudev.Monitor]) -> None:
        self.all: list[Uevent | None] = []
        self.added = asyncio.Event()
        self.uevents = Uevents(self.add, again_seconds=0.05, open_monitor=open_monitor)

    def add(self, event: Uevent | None) -> None:
        """Take note of an event."""
        self.all.append(event)
        self.added.set()

    def pairs(self, *syspaths: str) -> list[tuple[str, str]]:
        """Return what was sent about these; other tests may plug devices at the same time."""
        return [
            (event.action, event.syspath)
            for event in self.all
            if event is not None and event.syspath in syspaths
        ]

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not reached():
                self.added.clear()
                await self.added.wait()


@asynccontextmanager
async def hearing(
    open_monitor: Callable[[], pyudev.Monitor] = open_monitor,
) -> AsyncIterator[Heard]:
    """Listen to the kernel until the end of the context."""
    heard = Heard(open_monitor)
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(heard.uevents.run(), name="events of the kernel")
        try:
            await heard.until(lambda: bool(heard.all))
            yield heard
        finally:
            listening.cancel()


def few() -> pyudev.Monitor:
    """Open a monitor that loses what is not read soon: its queue has the least size there is."""
    return open_monitor(buffer_bytes=1)


def tell(action: str = "change", device: str = NULL) -> None:
    """Let the kernel show an event once more."""
    Path(device, "uevent").write_text(action)


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    async with hearing() as heard:
        yield heard


async def test_listening_begins_with_a_look_at_everything(heard: Heard) -> None:
    """Events between the owner's first scan and now were reported to no listener."""
    assert heard.uevents.complete
    assert heard.all[0] is None


@as_root
async def test_what_is_no_device_is_not_told(heard: Heard) -> None:
    drivers = list(Path("/sys/bus").glob("*/drivers/*/uevent"))
    tell(device=str(drivers[0].parent))
    tell()
    await heard.until(lambda: bool(heard.pairs(NULL)))
    values = [event.syspath for event in heard.all if event is not None]
    assert not [syspath for syspath in values if not syspath.startswith("/sys/devices/")]


@as_root
async def test_an_overrun_calls_for_one_look_at_everything_and_is_over() -> None:
    async with hearing(few) as heard:
        for _ in range(200):
            tell()
        await heard.until(lambda: heard.all.count(None) == 2)
        assert len(heard.all) < 200
        tell()
        await heard.until(lambda: heard.all[-1] is not None)
        assert heard.pairs(NULL)[-1] == ("change", NULL)
        assert heard.uevents.complete


@as_root
async def test_nothing_is_told_after_the_end() -> None:
    async with hearing() as heard:
        pass
    before = list(heard.all)
    async with hearing() as other:
        tell()
        await other.until(lambda: bool(other.pairs(NULL)))
    assert heard.all == before
    assert not heard.uevents.complete


@as_root
async def test_a_flood_leaves_the_loop_its_turns(heard: Heard) -> None:
    """Taken in one go, thousands of events would hold up an allocation for long."""
    for _ in range(1000):
        tell()
    most, before = 0, 0
    async with asyncio.timeout(60):
        while len(heard.pairs(NULL)) < 1000:
            await others_run()
            most, before = max(most, len(heard.all) - before), len(heard.all)
    assert 0 < most <= 256


@contextmanager
def without_descriptors() -> Iterator[None]:
    """Have this process at its limit: nothing more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_a_monitor_it_is_said_once_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    tries = 0

    def counted() -> pyudev.Monitor:
        nonlocal tries
        tries += 1
        return open_monitor()

    with ExitStack() as shortage:
        shortage.enter_context(without_descriptors())
        async with hearing(counted) as heard:
            await poll_until(lambda: tries > 2)
            assert not heard.uevents.complete
            shortage.close()
            await heard.until(lambda: heard.uevents.complete)
            assert heard.all == [None, None]
    first, last = caplog.messages
    assert first.startswith("kernel events are unavailable (")
    assert first.endswith("): polling instead")
    assert last == "kernel events are available again"


POD = ("unshare", "-n", "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--")
LISTENER = f"""
from genericdp.host.events import open_monitor
monitor = open_monitor()
print(open("/proc/self/status").read().partition("CapEff:")[2].split()[0], flush=True)
while monitor.poll(60).sys_path != "{NULL}":
    pass
"""


def pod_can_run() -> bool:
    """Return whether a process without capabilities can have a network namespace of its own."""
    has_tools = all(map(shutil.which, ("unshare", "setpriv")))
    return has_tools and not subprocess.run([*POD, "true"], capture_output=True).returncode


@as_root
@pytest.mark.skipif(not pod_can_run(), reason="needs unshare, setpriv and network namespaces")
def test_a_pod_without_capabilities_hears_the_kernel_in_its_own_network() -> None:
    """With the source ``udev`` nothing arrives: those messages stay in udevd's namespace."""
    command = [*POD, sys.executable, "-c", LISTENER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pod:
        assert pod.stdout is not None
        try:
            assert int(pod.stdout.readline(), 16) == 0
            tell()
            assert pod.wait(60) == 0
        finally:
            pod.kill()


def test_an_event_tells_both_places_of_a_move_the_subsystem_and_the_number() -> None:
    properties = {"DEVPATH_OLD": "/devices/pci0/net/eth0", "SUBSYSTEM": "net"}
    path = "/sys/devices/pci0/net/ens1"
    moved = SimpleNamespace(sys_path=path, action="move", properties=properties)
    former = "/sys/devices/pci0/net/eth0"
    assert uevent_of(moved) == Uevent(
        action="move", syspath=path, former_syspath=former, subsystem="net"
    )
    properties = {"SUBSYSTEM": "tty", "MAJOR": "188", "MINOR": "7"}
    tty = SimpleNamespace(sys_path="/sys/devices/tty7", action="add", properties=properties)
    assert uevent_of(tty).number == (188, 7)
