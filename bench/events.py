"""From a node that appears or vanishes to the bytes of the new list in another process."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

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
from bench.quantiles import quantiles
from bench.sides import BASELINE, DAEMON, POLLING, SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from bench.ear import Ear
    from bench.lines import Line
    from bench.nodes import Nodes
    from bench.sides import Bench, Globs

_APART_SECONDS = 0.15
"""Longer than the time within which changes go out together: each is a first one."""
_SETTLE_SECONDS = 0.8
_PLUGS = 7
"""In each turn."""
_BY_ATTRIBUTE = '{subsystem: block, devtype: disk, name: "zram*", attributes: {initstate: "0"}}'
_GOALS = {"p50": 20.0, "p99": 100.0}
_HAPPENINGS = ("appears", "vanishes")

Took = dict[str, dict[str, list[float]]]
"""Milliseconds by side, and by what happened."""
Changes = tuple["Callable[[int], None]", "Callable[[int], None]", "Sequence[int]"]
"""Two that undo each other, and the numbers of what they change."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Plug and unplug with each side in turn; the turns are spread, as the machine's moods are."""
    turns = 1 if bench.quick else 4
    loops, made, kind = _nothing(SIDES), _nothing(SIDES), ""
    for turn in range(turns):
        how = f"appear and vanish, {_PLUGS} times each, turn {turn + 1} of {turns}"
        if has_loops():
            bench.progress.say(f"loop devices {how}")
            _add(loops, await _loops(bench))
        bench.progress.say(f"nodes {how}")
        with nodes(4, bench.scratch) as host:
            _add(made, await _nodes(bench, host))
            kind = host.kind
    if has_loops():
        note = "from before the kernel is asked to the list; part of it is the kernel's own work"
        # It lets nobody know of a removal for 15 to 40 ms, by chance.
        for line in _quantiles(
            "a loop device {} to list", loops, note=note, comparable={"appears"}
        ):
            yield line
    if has_zram():
        bench.progress.say(f"zram devices appear and vanish, {_PLUGS} times each")
        async for line in _zram(bench):
            yield line
    for line in _quantiles("a node {} to list", made, note=kind):
        yield line


def _nothing(sides: Iterable[str]) -> Took:
    return {side: {one: [] for one in _HAPPENINGS} for side in sides}


def _add(all_of_it: Took, took: Took) -> None:
    for side, happenings in took.items():
        for happening, samples in happenings.items():
            all_of_it[side][happening] += samples


async def _loops(bench: Bench) -> Took:
    globs = {"bench.example.com/loop": "/dev/loop[89][0-9]"}
    remove_loops()
    with nodes(0, bench.scratch) as host:
        changes = (add_loop, remove_loop, LOOPS[:_PLUGS])
        sides = {DAEMON: (globs, changes), BASELINE: (globs, changes)}
        try:
            return await in_turns(bench, host.root, sides, 1)
        finally:
            remove_loops()


async def _nodes(bench: Bench, host: Nodes) -> Took:
    globs = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
    host.describe(range(4, 4 + _PLUGS))
    changes = (host.make, host.remove, range(4, 4 + _PLUGS))
    sides = {DAEMON: (globs, changes), BASELINE: (globs, changes)}
    return await in_turns(bench, host.root, sides, 1)


async def _zram(bench: Bench) -> AsyncIterator[Line]:
    """Found by an attribute, told by the kernel; beside a program that only polls."""
    name, device = "bench.example.com/zram", Zram()
    sides = {
        DAEMON: ({name: _BY_ATTRIBUTE}, (device.add, device.remove, range(_PLUGS))),
        POLLING: ({name: "/dev/zram*"}, (device.add, device.remove, range(3))),
    }
    with nodes(0, bench.scratch) as host:
        try:
            took = await in_turns(bench, host.root, sides, 1)
        finally:
            device.remove()
    note = "found by udev with attributes; beside it a program that looks every second"
    took[BASELINE] = took.pop(POLLING)
    # Of a program that looks each second any time up to one can be seen.
    for line in _quantiles(
        "a zram device {} to list", took, note=note, beside="polling", comparable=()
    ):
        yield line


async def in_turns(
    bench: Bench,
    root: Path,
    sides: Mapping[str, tuple[Globs, Changes]],
    turns: int,
    settle: float = _SETTLE_SECONDS,
) -> Took:
    """Run one side after the other, ``turns`` times, each time as a new process.

    ``settle``: how long it has after its first lists, in seconds.
    """
    took = _nothing(sides)
    for _ in range(turns):
        for side, (globs, (first, second, numbers)) in sides.items():
            async with bench.heard(side, globs, root=root) as ear:
                await asyncio.sleep(settle)
                for number in numbers:
                    took[side]["appears"].append(await _change(ear, first, number))
                    took[side]["vanishes"].append(await _change(ear, second, number))
    return took


async def _change(ear: Ear, change: Callable[[int], None], number: int) -> float:
    """Change something off the loop: what that takes is part of the time, not of the list's."""
    since = time.monotonic()
    await asyncio.to_thread(change, number)
    heard = await ear.next_list(since=since)
    await asyncio.sleep(_APART_SECONDS)
    return (heard.at - since) * 1000


def _quantiles(
    what: str,
    took: Took,
    *,
    note: str,
    beside: str = "floor",
    comparable: Collection[str] = _HAPPENINGS,
) -> list[Line]:
    lines = []
    for happening in _HAPPENINGS:
        own, floor = took[DAEMON][happening], took[BASELINE][happening]
        first = happening == _HAPPENINGS[0]
        lines += quantiles(
            what.format(happening),
            [own],
            [floor],
            goals=_GOALS,
            beside=beside,
            comparable=happening in comparable,
            note=note if first else "",
        )
    return lines
