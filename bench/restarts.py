"""From a new kubelet to a list of every resource at it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench

_GOAL = 300.0
_DOWN_SECONDS = 0.7
_UP_SECONDS = 0.5
_CASES = ((1, False), (1, True), (100, False), (100, True))


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Restart the kubelet of each side in turn."""
    rounds = 2 if bench.quick else 5
    with nodes(100, bench.scratch) as host:
        for count, crash in _CASES:
            how = "is killed" if crash else "is stopped"
            bench.progress.say(f"the kubelet {how} and started, {count} resources, {rounds} times")
            took = {
                side: await _restarts(bench, side, count, host, crash=crash, rounds=rounds)
                for side in SIDES
            }
            yield Line(
                what=f"kubelet {how}, started, all listed, {count} resources",
                unit="ms",
                daemon=tuple(took[DAEMON]),
                baseline=tuple(took[BASELINE]),
                goal=_GOAL,
                worst=True,
            )


async def _restarts(
    bench: Bench, side: str, count: int, host: Nodes, *, crash: bool, rounds: int
) -> list[float]:
    took = []
    async with (
        bench.kubelet() as kubelet,
        bench.registered(side, kubelet, things(count), root=host.root) as plugin,
    ):
        for _ in range(rounds):
            await asyncio.sleep(_UP_SECONDS)
            await (kubelet.crash() if crash else kubelet.stop())
            await asyncio.sleep(_DOWN_SECONDS)
            since = time.monotonic()
            await kubelet.start()
            took.append(await plugin.listed(since) * 1000)
    return took
