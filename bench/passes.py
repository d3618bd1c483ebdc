"""What a pass costs on a made-up machine with 20,000 devices, and what the loop feels of it."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench import trees
from bench.lag import Lag, watched
from bench.lines import Line
from bench.nodes import nodes
from genericdp.host.root import Root
from genericdp.host.uevents import Uevent
from genericdp.kubelet.folder import KubeletFolder
from genericdp.model import (
    Hardware,
    PathSelector,
    Place,
    Resource,
    Selector,
    UdevSelector,
    UsbSelector,
)
from genericdp.observed import until
from genericdp.process.run import Commands
from genericdp.supervisor import Pace, Supervisor
from genericdp.template import parse
from tests.looking import Discoverer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench

_PLACE = Place(file="bench.yaml", line=1, column=1)
_GOAL_OF_FIRST, _GOAL_OF_EVENT, _GOAL_OF_LAG, _GOAL_HERE = 1000.0, 10.0, 20.0, 20.0
_MANY = 10_000
_FULL_LOOK_SECONDS = 4.0
"""More often than in earnest, so that one need not be waited for."""
_USB = {
    10: UsbSelector(serial=("A000012?",)),
    111: UsbSelector(vendor=("1a86",)),
    5_000: UsbSelector(vendor=("*",)),
}
"""What takes so many of the adapters' ttys."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Look once, then at one event after the other."""
    rounds = 2 if bench.quick else 6
    bench.progress.say(f"passes over a made-up machine with {trees.DEVICES} devices")
    folder = bench.scratch / "machine"
    folder.mkdir()
    try:
        await asyncio.to_thread(trees.make, folder)
        for count, usb in _USB.items():
            async for line in _passes(folder, count, usb, rounds):
                yield line
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    yield await _here(rounds)
    bench.progress.say(f"the loop while {_MANY} nodes come")
    async for line in _lags(bench, rounds):
        yield line


async def _passes(folder: Path, count: int, usb: UsbSelector, rounds: int) -> AsyncIterator[Line]:
    hardware = Hardware(usb=usb)
    ttys = Selector(candidates=UdevSelector(subsystem=("tty",)), hardware=hardware)
    resources = (_resource(ttys, id_of="$(usb.serial)"),)
    discoverer = Discoverer(Root(folder), look_again=lambda: None)
    since = time.monotonic()
    found = await discoverer.discover(resources, {})
    first = _ms(since)
    took = []
    for i in range(rounds):
        number = 120 + i
        for change, action in ((trees.remove, "remove"), (trees.add, "add")):
            await asyncio.to_thread(change, folder, number)
            discoverer.mark_event(Uevent(action=action, syspath=trees.syspath(number)))
            discoverer.mark_file(f"/dev/ttyUSB{number}")
            since = time.monotonic()
            found = await discoverer.discover(resources, found.lists, full=False)
            took.append(_ms(since))
    what = f"of {trees.DEVICES} devices, {count} matched"
    yield Line(what=f"first look, {what}", unit="ms", daemon=(first,), goal=_GOAL_OF_FIRST)
    yield Line(what=f"one event, {what}", unit="ms", daemon=tuple(took), goal=_GOAL_OF_EVENT)


async def _here(rounds: int) -> Line:
    """Ask every device of this machine."""
    everything = Selector(candidates=UdevSelector(attributes={"no/such": ("*",)}))
    took = []
    for _ in range(rounds):
        discoverer = Discoverer(Root(Path("/")), look_again=lambda: None)
        since = time.monotonic()
        await discoverer.discover((_resource(everything),), {})
        took.append(_ms(since))
    what = "full look at all subsystems of this machine"
    return Line(what=what, unit="ms", daemon=tuple(took), goal=_GOAL_HERE)


async def _lags(bench: Bench, rounds: int) -> AsyncIterator[Line]:
    coming, event, again = Lag(), Lag(), Lag()
    with nodes(1, bench.scratch) as host:
        async with _supervised(bench, host.root) as supervisor, watched(coming, event, again):
            await _offered(supervisor, 1)
            await asyncio.to_thread(host.describe, range(1, _MANY))
            coming.begin()
            await asyncio.to_thread(_make_all, host)
            await _offered(supervisor, _MANY)
            coming.end()
            for number in range(1, 1 + rounds):
                await asyncio.sleep(0.5)
                event.begin()
                await asyncio.to_thread(host.remove, number)
                await _offered(supervisor, _MANY - number)
                event.end()
            again.begin()
            await asyncio.sleep(2 * _FULL_LOOK_SECONDS)
            again.end()
    for what, lag in (
        (f"{_MANY} nodes come", coming),
        (f"one of {_MANY} goes", event),
        (f"all {_MANY} are looked at", again),
    ):
        yield Line(
            what=f"the loop is late while {what}",
            unit="ms",
            daemon=tuple(lag.samples),
            goal=_GOAL_OF_LAG,
            worst=True,
        )


def _make_all(host: Nodes) -> None:
    for number in range(1, _MANY):
        host.make(number)


@asynccontextmanager
async def _supervised(bench: Bench, root: Path) -> AsyncIterator[Supervisor]:
    """Run a supervisor on this loop; there is no kubelet."""
    folder = bench.scratch / "no-kubelet"
    folder.mkdir(exist_ok=True)
    supervisor = Supervisor(
        root=Root(root),
        node_name="bench",
        kubelet=KubeletFolder(folder),
        commands=Commands(),
        pace=Pace(full_look=_FULL_LOOK_SECONDS),
    )
    paths = Selector(candidates=PathSelector(globs=("/dev/genericdp-bench/thing-*",)))
    supervisor.resources.value = (_resource(paths),)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(supervisor.run())
        yield supervisor
        running.cancel()


async def _offered(supervisor: Supervisor, count: int) -> None:
    def healthy() -> bool:
        offers = supervisor.lists.value.values()
        return sum(not one.unhealthy for offer in offers for one in offer.devices.values()) == count

    if not await until(healthy, supervisor.lists, timeout_seconds=60):
        raise TimeoutError(f"no {count} devices on offer")


def _resource(selector: Selector, *, id_of: str = "") -> Resource:
    wanted = parse(id_of) if id_of else None
    return Resource(name="bench.example.com/thing", place=_PLACE, match=(selector,), id=wanted)


def _ms(since: float) -> float:
    return (time.monotonic() - since) * 1000
