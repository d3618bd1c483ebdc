"""From a node that appears or vanishes to the new list at the kubelet."""

from __future__ import annotations

import asyncio
import time
from itertools import chain
from typing import TYPE_CHECKING

from bench.lines import Line, percentile
from bench.nodes import (
    FOLDER,
    LOOPS,
    Zram,
    add_loop,
    has_loops,
    has_zram,
    nodes,
    remove_loop,
    remove_loops,
)
from bench.sides import BASELINE, DAEMON, POLLING, SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bench.nodes import Nodes
    from bench.sides import Bench, Globs, Plugin

_APART_SECONDS = 0.2
"""Longer than the time within which changes go out together: each is a first one."""
_MANY = 10_000
_ZRAM_PLUGS, _ZRAM_POLLS = 50, 10
_BY_ATTRIBUTE = '{subsystem: block, devtype: disk, name: "zram*", attributes: {initstate: "0"}}'
_GOALS = ((0.50, "p50", 20.0), (0.99, "p99", 100.0))
_GOAL_OF_MANY = 6.0

Took = dict[str, dict[str, list[float]]]
"""Milliseconds by side, and by what happened."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Plug and unplug with each side in turn."""
    plugs = 5 if bench.quick else len(LOOPS)
    if has_loops():
        bench.progress.say(f"loop devices appear and vanish, {plugs} times each")
        async for line in _loops(bench, plugs):
            yield line
    if has_zram():
        bench.progress.say(f"zram devices appear and vanish, {_ZRAM_PLUGS} times each")
        async for line in _zram(bench):
            yield line
    bench.progress.say(f"nodes appear and vanish, {plugs} times each")
    async for line in _few(bench, plugs):
        yield line
    rounds = 3 if bench.quick else 8
    bench.progress.say(f"one of {_MANY} nodes appears or vanishes, {rounds} times each")
    async for line in _of_many(bench, rounds):
        yield line


async def _loops(bench: Bench, plugs: int) -> AsyncIterator[Line]:
    globs = {"bench.example.com/loop": "/dev/loop[89][0-9]"}
    took: Took = {}
    remove_loops()
    with nodes(0, bench.scratch) as host:
        try:
            for side in SIDES:
                changes = (add_loop, remove_loop, list(LOOPS)[:plugs])
                took[side] = await _changes(bench, side, globs, host, changes)
                remove_loops()
        finally:
            remove_loops()
    note = "from before the kernel is asked to the list; part of it is the kernel's own work"
    for line in _quantiles("a loop device {} to list", took, note=note):
        yield line


async def _zram(bench: Bench) -> AsyncIterator[Line]:
    """Found by an attribute, told by the kernel; beside a program that only polls."""
    name, device = "bench.example.com/zram", Zram()
    plugs = {DAEMON: _ZRAM_PLUGS // (5 if bench.quick else 1), POLLING: _ZRAM_POLLS}
    asked = {DAEMON: {name: _BY_ATTRIBUTE}, POLLING: {name: "/dev/zram*"}}
    took: Took = {}
    with nodes(0, bench.scratch) as host:
        for side, rounds in plugs.items():
            try:
                changes = (device.add, device.remove, list(range(rounds)))
                took[side] = await _changes(bench, side, asked[side], host, changes)
            finally:
                device.remove()
    note = "found by udev with attributes; beside it a program that looks every second"
    took[BASELINE] = took.pop(POLLING)
    for line in _quantiles("a zram device {} to list", took, note=note):
        yield line


async def _few(bench: Bench, plugs: int) -> AsyncIterator[Line]:
    globs = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
    took: Took = {}
    with nodes(4, bench.scratch) as host:
        host.describe(range(4, 4 + plugs))
        for side in SIDES:
            changes = (host.make, host.remove, list(range(4, 4 + plugs)))
            took[side] = await _changes(bench, side, globs, host, changes)
        for line in _quantiles("a node {} to list", took, note=host.kind):
            yield line


async def _of_many(bench: Bench, rounds: int) -> AsyncIterator[Line]:
    globs = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
    took: Took = {}
    with nodes(_MANY, bench.scratch) as host:
        for side in SIDES:
            # The other way round: of those that are there, each vanishes and returns.
            changes = (host.remove, host.make, [i * 997 for i in range(rounds)])
            took[side] = await _changes(bench, side, globs, host, changes)
        yield Line(
            what=f"one of {_MANY} nodes changes to list",
            unit="ms",
            daemon=tuple(chain(*took[DAEMON].values())),
            baseline=tuple(chain(*took[BASELINE].values())),
            goal=_GOAL_OF_MANY,
            note=f"{host.kind}; the simulator's decoding of the list is part of both figures",
        )


async def _changes(
    bench: Bench,
    side: str,
    globs: Globs,
    host: Nodes,
    changes: tuple[Callable[[int], None], Callable[[int], None], list[int]],
) -> dict[str, list[float]]:
    first, second, numbers = changes
    took: dict[str, list[float]] = {"appears": [], "vanishes": []}
    async with (
        bench.kubelet() as kubelet,
        bench.registered(side, kubelet, globs, root=host.root) as plugin,
    ):
        await asyncio.sleep(1.0)
        for number in numbers:
            took["appears"].append(await _change(plugin, first, number))
            took["vanishes"].append(await _change(plugin, second, number))
    return took


async def _change(plugin: Plugin, change: Callable[[int], None], number: int) -> float:
    """Change something off the loop, so that the list can be read while that takes its time."""
    since = time.monotonic()
    await asyncio.to_thread(change, number)
    seconds = await plugin.listed(since)
    await asyncio.sleep(_APART_SECONDS)
    return seconds * 1000


def _quantiles(what: str, took: Took, *, note: str) -> list[Line]:
    lines = []
    for happening in ("appears", "vanishes"):
        own, floor = took[DAEMON][happening], took[BASELINE][happening]
        for share, name, goal in _GOALS:
            # The samples are shown whole with the p50; a p99 of so few is their largest.
            lines.append(
                Line(
                    what=f"{what.format(happening)}, {name}",
                    unit="ms",
                    daemon=tuple(own) if name == "p50" else (percentile(own, share),),
                    baseline=tuple(floor) if name == "p50" else (percentile(floor, share),),
                    goal=goal,
                    note=note if happening == "appears" and name == "p50" else "",
                )
            )
    return lines
