"""From a new kubelet to a list of every resource at it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench, Plugin

_GOAL = 300.0
_DOWN_SECONDS = 0.3
_UP_SECONDS = 0.2
_CASES = {1: (True, False), 100: (True, False), 500: (True,)}
"""By the number of resources: whether the kubelet is killed, or ends in good order."""
_ROUNDS = {1: 13, 100: 5, 500: 5}
_QUICK_ROUNDS = 2


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Restart the kubelets of both sides in turns; each has its own."""
    with nodes(max(_CASES), bench.scratch) as host:
        for count, cases in _CASES.items():
            rounds = _QUICK_ROUNDS if bench.quick else _ROUNDS[count]
            async with AsyncExitStack() as stack:
                plugins = await _plugins(bench, stack, host, count)
                for crash in cases:
                    yield await _restarts(bench, plugins, crash=crash, rounds=rounds)


async def _plugins(
    bench: Bench, stack: AsyncExitStack, host: Nodes, count: int
) -> dict[str, Plugin]:
    plugins = {}
    for side in SIDES:
        kubelet = await stack.enter_async_context(bench.kubelet())
        plugins[side] = await stack.enter_async_context(
            bench.registered(side, kubelet, things(count), root=host.root)
        )
    return plugins


async def _restarts(bench: Bench, plugins: dict[str, Plugin], *, crash: bool, rounds: int) -> Line:
    how = "is killed" if crash else "is stopped"
    what = f"{len(plugins[DAEMON].resources)} resources"
    bench.progress.say(f"the kubelet {how} and started, {what}, {rounds} times")
    took: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, plugin in plugins.items():
            took[side].append(await _restart(plugin, crash=crash))
    return Line(
        what=f"kubelet {how}, started, all listed, {what}",
        unit="ms",
        daemon=tuple(took[DAEMON]),
        baseline=tuple(took[BASELINE]),
        goal=_GOAL,
        worst=True,
    )


async def _restart(plugin: Plugin, *, crash: bool) -> float:
    kubelet = plugin.kubelet
    await asyncio.sleep(_UP_SECONDS)
    await (kubelet.crash() if crash else kubelet.stop())
    await asyncio.sleep(_DOWN_SECONDS)
    since = time.monotonic()
    await kubelet.start()
    return await plugin.listed(since) * 1000
