"""Allocate while a thousand probes run: a daemon that has them beside the same one without."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.calls import allocating, block_for
from bench.health import COMMAND, DEVICES, PERIOD_SECONDS, SETTLE_SECONDS, with_probes
from bench.nodes import nodes
from bench.quantiles import quantiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from bench.lines import Line
    from bench.sides import Bench

_GOALS = {"p50": 1.5, "p99": 3.0}
_BLOCK_SECONDS = 2.0
_CATCH_UP_SECONDS = 1.5
"""After a stop of two seconds, in which 200 commands were due: they take about half a second."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Call both in turns; while the one without probes is called, the other one is stopped."""
    rounds, rate = 3 if bench.quick else 4, DEVICES // PERIOD_SECONDS
    bench.progress.say(f"Allocate beside {rate} commands a second, {rounds} rounds")
    beside: list[list[float]] = []
    without: list[list[float]] = []
    with nodes(DEVICES, bench.scratch) as host:
        async with (
            with_probes(bench, host, "") as bare,
            with_probes(bench, host, COMMAND) as probing,
            allocating(bare) as allocate_bare,
            allocating(probing) as allocate_probing,
        ):
            await asyncio.sleep(SETTLE_SECONDS)
            for _ in range(rounds):
                with _stopped(probing.pid):
                    await asyncio.sleep(0.1)
                    without.append(await block_for(allocate_bare, _BLOCK_SECONDS))
                await asyncio.sleep(_CATCH_UP_SECONDS)
                beside.append(await block_for(allocate_probing, _BLOCK_SECONDS))
    for line in quantiles(
        f"Allocate during {DEVICES} exec probes",
        beside,
        without,
        goals=_GOALS,
        beside="no probes",
        relative=True,
        note=f"each probe starts a command every {PERIOD_SECONDS} s; beside it the same daemon "
        "without probes",
    ):
        yield line


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
