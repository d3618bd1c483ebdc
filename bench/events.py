"""From a device that appears or vanishes to the bytes of the new list in another process."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench.nodes import FOLDER, LOOPS, add_loop, has_loops, nodes, remove_loop, remove_loops
from bench.results import Result
from bench.runner import DAEMON, PEER, SIDES, config_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from bench.kubelet import Kubelet
    from bench.runner import Bench

    Change = Callable[[int], None]

_APART_SECONDS = 0.15
"""Longer than the time within which changes go out together."""
_SETTLE_SECONDS = 0.8
_TIMES = 7
"""In each turn."""
_GOAL = 15.0
_THINGS = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
_LOOPS = {"bench.example.com/loop": "/dev/loop[89][0-9]"}
_LOOPS_BY_UDEV = {"bench.example.com/loop": '{subsystem: block, name: "loop[89][0-9]"}'}

Latencies = dict[str, tuple[list[float], list[float]]]
"""By side: in milliseconds, of devices that appear and of devices that vanish."""


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Plug and unplug with each side in turn: plain nodes, and devices that the kernel tells of."""
    turns = 1 if bench.quick else 4
    bench.say(f"nodes appear and vanish, {turns} turns")
    took: Latencies = {side: ([], []) for side in SIDES}
    with nodes(_TIMES, bench.scratch) as host:
        host.describe(range(_TIMES, 2 * _TIMES))
        numbers = range(_TIMES, 2 * _TIMES)
        for _ in range(turns):
            await _turn(bench, took, _THINGS, host.root, (host.make, host.remove), numbers)
    for result in _results("device file {}", took):
        yield result
    if not has_loops():
        return
    bench.say(f"loop devices appear and vanish, {turns} turns")
    took = {side: ([], []) for side in SIDES}
    config = bench.scratch / "loops.yaml"
    config.write_text(config_text(_LOOPS_BY_UDEV, key="udev"), encoding="utf-8")
    remove_loops()
    add_loop(LOOPS[-1])  # so that the first list is not empty
    try:
        for _ in range(turns):
            changes, numbers = (add_loop, remove_loop), LOOPS[:_TIMES]
            await _turn(bench, took, _LOOPS, host.root, changes, numbers, config)
    finally:
        remove_loops()
    # Part of it is the kernel's own work: it tells of a removal 15 to 40 ms late, by chance.
    for result in _results("loop device {}", took):
        yield result


async def _turn(
    bench: Bench,
    took: Latencies,
    globs: Mapping[str, str],
    root: Path,
    changes: tuple[Change, Change],
    numbers: Sequence[int],
    config: Path | None = None,
) -> None:
    for side, latencies_of in took.items():
        async with bench.registered(side, globs, root=root, config=config) as plugin:
            await asyncio.sleep(_SETTLE_SECONDS)
            for number in numbers:
                for change, samples in zip(changes, latencies_of, strict=True):
                    await bench.before_change(_APART_SECONDS)
                    samples.append(await to_list(plugin.kubelet, change, number))


async def to_list(kubelet: Kubelet, change: Change, number: int) -> float:
    """Change something off the loop; returns the milliseconds until a list has come."""
    since = time.monotonic()
    await asyncio.to_thread(change, number)
    return ((await kubelet.next_list(since=since)).at - since) * 1000


def _results(what: str, took: Latencies) -> list[Result]:
    return [
        Result(what=what.format(happening), unit="ms", daemon=daemon, peer=peer, goal=_GOAL)
        for happening, daemon, peer in zip(
            ("appears", "vanishes"), took[DAEMON], took[PEER], strict=True
        )
    ]
