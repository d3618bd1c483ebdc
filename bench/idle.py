"""What a process costs while nothing happens."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.processes import cpu_seconds
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.sides import Bench

_RESOURCES = 100
_GOAL = 0.1
_SETTLE_SECONDS = 3.0


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Let both do nothing side by side; the simulator does not disturb them."""
    seconds = 10.0 if bench.quick else 60.0
    bench.progress.say(f"idle with {_RESOURCES} resources for {seconds:.0f} s")
    with nodes(_RESOURCES, bench.scratch) as host:
        async with AsyncExitStack() as stack:
            plugins = {}
            for side in SIDES:
                kubelet = await stack.enter_async_context(bench.kubelet())
                plugins[side] = await stack.enter_async_context(
                    bench.registered(side, kubelet, things(_RESOURCES), root=host.root)
                )
            await asyncio.sleep(_SETTLE_SECONDS)
            before = {side: cpu_seconds(plugins[side].pid) for side in SIDES}
            await asyncio.sleep(seconds)
            used = {side: cpu_seconds(plugins[side].pid) - before[side] for side in SIDES}
    yield Line(
        what=f"idle CPU over {seconds:.0f} s, {_RESOURCES} resources",
        unit="% of a core",
        daemon=(used[DAEMON] / seconds * 100,),
        baseline=(used[BASELINE] / seconds * 100,),
        goal=_GOAL,
        note="" if seconds > 30 else "shorter than the time between two full looks",
    )
