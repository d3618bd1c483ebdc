"""From a new kubelet to a list of every resource at it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from bench.kubelet import kubelet
from bench.nodes import nodes
from bench.results import Result, counted
from bench.runner import DAEMON, PEER, SIDES, in_turns, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from bench.runner import Bench

_GOALS = {1: 50.0, 100: 400.0}
"""Milliseconds, by the number of resources."""
_SETTLE_SECONDS = 0.3


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Kill and start the kubelets of both sides in turns; each has its own."""
    rounds = 2 if bench.quick else 9
    with nodes(max(_GOALS), bench.scratch) as host:
        for count, goal in _GOALS.items():
            bench.say(f"the kubelet restarts, {count} resources, {rounds} rounds")
            globs = things(count)
            async with AsyncExitStack() as stack:
                folders = {side: stack.enter_context(bench.folder()) for side in SIDES}
                for side, folder in folders.items():
                    async with kubelet(folder) as first:
                        process = bench.process(side, globs, folder, host.root)
                        await stack.enter_async_context(process)
                        await bench.first_lists(side, first, globs)
                took = await in_turns(rounds, partial(_restart, bench, globs, folders))
            yield Result(
                what=f"kubelet restart, {counted(count, 'resource')}",
                unit="ms",
                daemon=took[DAEMON],
                peer=took[PEER],
                goal=goal,
            )


async def _restart(
    bench: Bench, globs: Mapping[str, str], folders: Mapping[str, Path], side: str
) -> float:
    async with kubelet(folders[side]) as started:
        lists = await bench.first_lists(side, started, globs)
        await asyncio.sleep(_SETTLE_SECONDS)
        return (max(one.at for one in lists.values()) - started.started) * 1000
