"""From exec to a list of every resource at the kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench

_GOALS = {1: 250.0, 100: 350.0}


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Start both sides in turns."""
    rounds = 3 if bench.quick else 7
    with nodes(max(_GOALS), bench.scratch) as host:
        for count, goal in _GOALS.items():
            bench.progress.say(f"start with {count} resources, {rounds} rounds")
            took: dict[str, list[float]] = {side: [] for side in SIDES}
            for _ in range(rounds):
                for side in SIDES:
                    took[side].append(await _start(bench, side, count, host))
            yield Line(
                what=f"exec to all listed, {count} resources",
                unit="ms",
                daemon=tuple(took[DAEMON]),
                baseline=tuple(took[BASELINE]),
                goal=goal,
            )


async def _start(bench: Bench, side: str, count: int, host: Nodes) -> float:
    async with (
        bench.kubelet() as kubelet,
        bench.registered(side, kubelet, things(count), root=host.root) as plugin,
    ):
        return await plugin.listed(plugin.started) * 1000
