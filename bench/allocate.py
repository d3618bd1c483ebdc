"""How long Allocate takes, seen from the other end of the socket."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.client import client
from bench.nodes import FOLDER, nodes
from bench.results import counted, latencies
from bench.runner import DAEMON, PEER, SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.results import Result
    from bench.runner import Bench

_DEVICES = 8
_BLOCK_SECONDS = 1.0
_GLOBS = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Call both sides in turns, for a second each; the first turn warms up."""
    rounds = 2 if bench.quick else 7
    bench.say(f"Allocate, {rounds} rounds of {_BLOCK_SECONDS:g} s")
    with nodes(_DEVICES, bench.scratch) as host:
        async with AsyncExitStack() as stack:
            clients = {}
            for side in SIDES:
                plugin = await stack.enter_async_context(
                    bench.registered(side, _GLOBS, root=host.root)
                )
                (listed,) = plugin.lists.values()
                clients[side] = await stack.enter_async_context(client(listed))
            took: dict[str, list[float]] = {side: [] for side in SIDES}
            for number in range(rounds + 1):
                for side, caller in clients.items():
                    await caller.begin()
                    await asyncio.sleep(_BLOCK_SECONDS)
                    block = await caller.end()
                    if number:
                        took[side] += block
    for result in latencies(
        f"Allocate, {counted(_DEVICES, 'device')}",
        took[DAEMON],
        took[PEER],
        p50_goal=0.8,
        p99_goal=2.0,
    ):
        yield result
