"""What one resource of 100, 1,000 and 10,000 devices costs, and Allocate while one changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.client import client
from bench.events import to_list
from bench.nodes import FOLDER, nodes
from bench.processes import resident_memory
from bench.results import Result, counted
from bench.runner import DAEMON, PEER, SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from bench.nodes import Nodes
    from bench.runner import Bench, Registered

_GOALS = {100: 15.0, 1_000: 120.0, 10_000: 1500.0}
"""Milliseconds until a change is listed, by the number of devices."""
_LATENCY_GOAL = 50.0
"""The longest that Allocate may be held up meanwhile."""
_GLOBS = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
_SETTLE_SECONDS = 3.0
"""By then all has been looked at once more, now that events tell of changes."""
_APART_SECONDS = 0.3
_PAUSE_SECONDS = 0.002
"""Between two calls of Allocate: a kubelet does not use up a core with them."""


class _Samples:
    """Of one side."""

    def __init__(self) -> None:
        self.start: list[float] = []
        self.memory: list[float] = []
        self.changes: list[float] = []
        self.calls: list[float] = []


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Start each side with so many devices, then let one of them vanish and return."""
    turns, changes = (1, 3) if bench.quick else (2, 5)
    for count, goal in _GOALS.items():
        bench.say(f"{count} devices, {turns} turns")
        found = {side: _Samples() for side in SIDES}
        with nodes(count, bench.scratch) as host:
            # Without root each change has all of a copied tree looked at, which takes seconds.
            numbers = range(count - 1, 0, -1)[: changes if host.real else 1]
            for _ in range(turns):
                for side, samples in found.items():
                    async with bench.registered(side, _GLOBS, root=host.root) as plugin:
                        await _sample(bench, samples, plugin, host, numbers)
        for result in _results(count, goal, found[DAEMON], found[PEER]):
            yield result


async def _sample(
    bench: Bench, samples: _Samples, plugin: Registered, host: Nodes, numbers: range
) -> None:
    samples.start.append(plugin.seconds_to_lists * 1000)
    await asyncio.sleep(_SETTLE_SECONDS)
    samples.memory.append(resident_memory(plugin.process.pid))
    (listed,) = plugin.lists.values()
    async with client(listed) as caller:
        for number in numbers:
            for change in (host.remove, host.make):
                # Once by itself, then with calls: these delay the change as well.
                await bench.before_change(_APART_SECONDS)
                samples.changes.append(await to_list(plugin.kubelet, change, number))
            for change in (host.remove, host.make):
                await asyncio.sleep(_APART_SECONDS)
                await caller.begin(pause_seconds=_PAUSE_SECONDS)
                await to_list(plugin.kubelet, change, number)
                samples.calls += await caller.end()


def _results(count: int, goal: float, daemon: _Samples, peer: _Samples) -> Iterator[Result]:
    devices = counted(count, "device")
    yield Result(what=f"start, {devices}", unit="ms", daemon=daemon.start, peer=peer.start)
    yield Result(what=f"memory, {devices}", unit="MB", daemon=daemon.memory, peer=peer.memory)
    yield Result(
        what=f"change, {devices}",
        unit="ms",
        daemon=daemon.changes,
        peer=peer.changes,
        goal=goal,
    )
    yield Result(
        what=f"slowest Allocate, {devices}",
        unit="ms",
        daemon=[max(daemon.calls)],
        peer=[max(peer.calls)],
        goal=_LATENCY_GOAL,
    )
