"""How much memory a process has once it serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.processes import Memory, memory
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench

_GOALS = {1: 40.0, 10: 41.0, 100: 48.0, 500: 90.0}
_SETTLE_SECONDS = 1.0


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Look at both sides shortly after all is registered."""
    with nodes(max(_GOALS), bench.scratch) as host:
        for count, goal in _GOALS.items():
            rounds = 1 if bench.quick else 2
            bench.progress.say(f"memory with {count} resources, {rounds} rounds")
            found: dict[str, list[Memory]] = {side: [] for side in SIDES}
            for _ in range(rounds):
                for side in SIDES:
                    found[side].append(await _memory(bench, side, count, host))
            own, floor = found[DAEMON], found[BASELINE]
            yield Line(
                what=f"resident memory, {count} resources",
                unit="MB",
                daemon=tuple(one.resident for one in own),
                baseline=tuple(one.resident for one in floor),
                goal=goal,
            )
            yield Line(
                what=f"private memory, {count} resources",
                unit="MB",
                daemon=tuple(one.own for one in own),
                baseline=tuple(one.own for one in floor),
                note=f"daemon {own[-1]}; floor {floor[-1]}",
            )


async def _memory(bench: Bench, side: str, count: int, host: Nodes) -> Memory:
    async with (
        bench.kubelet() as kubelet,
        bench.registered(side, kubelet, things(count), root=host.root) as plugin,
    ):
        await asyncio.sleep(_SETTLE_SECONDS)
        return memory(plugin.pid)
