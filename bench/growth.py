"""What many allocations and many kubelets leave behind in a process."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.calls import allocating
from bench.lines import Line
from bench.nodes import nodes
from bench.processes import descriptors, memory
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.sides import Bench, Plugin
    from genericdp.simulator.kubelet import Kubelet

_GOAL = 1.0
_WARM_UP = 0.1
"""This share of the work is done once before, and does not count."""
_SETTLE_SECONDS = 0.5


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Burden both with the same work on one kubelet."""
    calls, restarts = (4_000, 30) if bench.quick else (40_000, 300)
    bench.progress.say(f"growth over {calls} allocations and {restarts} kubelet restarts")
    with nodes(2, bench.scratch) as host:
        async with AsyncExitStack() as stack:
            kubelet = await stack.enter_async_context(bench.kubelet())
            plugins = {
                side: await stack.enter_async_context(
                    bench.registered(side, kubelet, things(1, prefix=side), root=host.root)
                )
                for side in SIDES
            }
            await _burden(bench, kubelet, plugins, int(calls * _WARM_UP), int(restarts * _WARM_UP))
            before = await _state(plugins)
            await _burden(bench, kubelet, plugins, calls, restarts)
            after = await _state(plugins)
    after_what = f"after {calls} Allocates, {restarts} restarts"
    figures = (
        (f"resident memory {after_what}", "MB more", _GOAL),
        (f"private memory {after_what}", "MB more", None),
        ("descriptors after that", "more", 0.0),
    )
    for number, (what, unit, goal) in enumerate(figures):
        grown = {side: (after[side][number] - before[side][number],) for side in SIDES}
        yield Line(
            what=what,
            unit=unit,
            daemon=grown[DAEMON],
            baseline=grown[BASELINE],
            goal=goal,
            comparable=False,
        )


async def _burden(
    bench: Bench, kubelet: Kubelet, plugins: dict[str, Plugin], calls: int, restarts: int
) -> None:
    for i in range(restarts):
        since = time.monotonic()
        await kubelet.restart()
        for plugin in plugins.values():
            await plugin.listed(since)
        if i % 100 == 99:
            bench.progress.say(f"  {i + 1} restarts")
    async with asyncio.TaskGroup() as tasks:
        for side, plugin in plugins.items():
            tasks.create_task(_allocate(plugin, calls), name=f"allocations of the {side}")


async def _allocate(plugin: Plugin, calls: int) -> None:
    async with allocating(plugin) as allocate:
        for _ in range(calls):
            await allocate()


async def _state(plugins: dict[str, Plugin]) -> dict[str, tuple[float, ...]]:
    await asyncio.sleep(_SETTLE_SECONDS)
    return {side: _figures(plugin.pid) for side, plugin in plugins.items()}


def _figures(pid: int) -> tuple[float, ...]:
    now = memory(pid)
    return now.resident, now.own, float(descriptors(pid))
