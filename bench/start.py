"""From exec to a list of every resource at the kubelet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.nodes import nodes
from bench.results import Result, counted
from bench.runner import DAEMON, PEER, in_turns, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.runner import Bench

_GOALS = {1: 2.5, 100: 1.7}
"""Times the bare plugin, by the number of resources."""


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Start both sides in turns."""
    rounds = 3 if bench.quick else 9
    with nodes(max(_GOALS), bench.scratch) as host:
        for count, goal in _GOALS.items():
            bench.say(f"start with {count} resources, {rounds} rounds")
            took = await in_turns(rounds, partial(_start, bench, count, host.root))
            yield Result(
                what=f"start, {counted(count, 'resource')}",
                unit="ms",
                daemon=took[DAEMON],
                peer=took[PEER],
                goal=goal,
                judged_by="ratio",
            )


async def _start(bench: Bench, count: int, root: Path, side: str) -> float:
    async with bench.registered(side, things(count), root=root) as plugin:
        return plugin.seconds_to_lists * 1000
