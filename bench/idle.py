"""What a process costs while nothing happens."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import product
from typing import TYPE_CHECKING

from bench.nodes import nodes
from bench.processes import cpu_seconds
from bench.results import Result, counted
from bench.runner import DAEMON, PEER, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.runner import Bench

_GOALS = {1: None, 100: 0.2}
"""Per cent of a core, by the number of resources."""
_SETTLE_SECONDS = 3.0
_WINDOW_SECONDS = 30.0
"""From one look at all devices to the next, so that each window has one of them."""


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Let genericdp and its peer do nothing side by side."""
    seconds, windows = (5.0, 2) if bench.quick else (_WINDOW_SECONDS, 4)
    bench.say(f"idle for {windows} times {seconds:.0f} s")
    cases = list(product(_GOALS, SIDES))
    with nodes(max(_GOALS), bench.scratch) as host:
        async with AsyncExitStack() as stack:
            pids = {}
            for count, side in cases:
                plugin = bench.registered(side, things(count), root=host.root)
                pids[count, side] = (await stack.enter_async_context(plugin)).process.pid
            await asyncio.sleep(_SETTLE_SECONDS)
            shares: dict[tuple[int, str], list[float]] = {case: [] for case in cases}
            for _ in range(windows):
                before = {case: cpu_seconds(pid) for case, pid in pids.items()}
                await asyncio.sleep(seconds)
                for case, pid in pids.items():
                    shares[case].append((cpu_seconds(pid) - before[case]) / seconds * 100)
    for count, goal in _GOALS.items():
        yield Result(
            what=f"idle CPU, {counted(count, 'resource')}",
            unit="%",
            daemon=shares[count, DAEMON],
            peer=shares[count, PEER],
            goal=goal,
        )
