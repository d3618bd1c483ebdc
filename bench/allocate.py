"""How long Allocate takes, seen from the other end of the socket."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.calls import allocating
from bench.lines import Line, percentile
from bench.nodes import nodes
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.sides import Bench

_BLOCKS = 5
_GOALS = ((0.50, "p50", 0.7), (0.99, "p99", 2.0))


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Call both sides in turns, a block of calls each; one sample is one block."""
    calls = 200 if bench.quick else 1000
    bench.progress.say(f"Allocate, {_BLOCKS} blocks of {calls} calls")
    took: dict[str, list[list[float]]] = {side: [] for side in SIDES}
    with nodes(1, bench.scratch) as host:
        async with AsyncExitStack() as stack:
            callers = {}
            for side in SIDES:
                kubelet = await stack.enter_async_context(bench.kubelet())
                plugin = await stack.enter_async_context(
                    bench.registered(side, kubelet, things(1), root=host.root)
                )
                callers[side] = await stack.enter_async_context(allocating(plugin))
            for block in range(_BLOCKS + 1):
                for side in SIDES:
                    samples = [await callers[side]() for _ in range(calls)]
                    if block:  # the first one warms up
                        took[side].append(samples)
    for share, name, goal in _GOALS:
        yield Line(
            what=f"Allocate through the socket, {name}",
            unit="ms",
            daemon=tuple(percentile(block, share) for block in took[DAEMON]),
            baseline=tuple(percentile(block, share) for block in took[BASELINE]),
            goal=goal,
        )
