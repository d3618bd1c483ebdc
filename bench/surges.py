"""One instance takes another's place: how long any resource is without healthy devices (K10)."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.sides import DAEMON, LIST_SECONDS, things
from genericdp.simulator.settings import Generation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench, Globs, Plugin
    from genericdp.simulator.kubelet import Kubelet

_GOAL = 1000.0
_PROBE = "exec: {command: [/bin/sleep, '0.1']}\n        periodSeconds: 5"
_CASES = ((1, ""), (50, ""), (50, _PROBE))
_OLDER = "older"
_WHICH = (_OLDER, "newer")
_NEVER = 0.0
_FOLLOWED_SECONDS = 3.0
_APART_SECONDS = 3.0


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Start one beside another, then end the older one, as a surge does, or the newer one."""
    rounds = 2 if bench.quick else 5
    with nodes(50, bench.scratch) as host:
        for generation, (count, probe), which in product(Generation, _CASES, _WHICH):
            about = f"{count} resources{', a probe of 100 ms each' if probe else ''}"
            what = f"the {which} of two instances ends, kubelet {generation}, {about}"
            bench.progress.say(f"{what}, {rounds} times")
            took = [
                await _end_one(bench, generation, things(count), host, probe, which, number)
                for number in range(rounds)
            ]
            yield Line(
                what=f"{what}: no devices", unit="ms", daemon=tuple(took), goal=_GOAL, worst=True
            )


async def _end_one(
    bench: Bench,
    generation: Generation,
    globs: Globs,
    host: Nodes,
    probe: str,
    which: str,
    number: int,
) -> float:
    """Give the longest time that a resource was without, in milliseconds."""
    how = signal.SIGKILL if number % 2 else signal.SIGTERM
    async with bench.kubelet(generation) as kubelet:
        one = bench.registered(DAEMON, kubelet, globs, root=host.root, health=probe)
        other = bench.registered(DAEMON, kubelet, globs, root=host.root, health=probe)
        async with one as older:
            # Of two that come at once either may be the later one, and both take care.
            await asyncio.sleep(_APART_SECONDS)
            async with other as newer:
                return await _gap_at_the_end_of(
                    older if which == _OLDER else newer, kubelet, globs, how
                )


async def _gap_at_the_end_of(
    leaving: Plugin, kubelet: Kubelet, globs: Globs, how: signal.Signals
) -> float:
    both = partial(_have_streams, kubelet, globs, 2)
    await kubelet.wait_for(both, LIST_SECONDS)
    await asyncio.sleep(1.0)
    leaving.process.send_signal(how)
    return await _longest_gap(kubelet, globs) * 1000


def _have_streams(kubelet: Kubelet, globs: Globs, count: int) -> bool:
    return all(kubelet.streams(name) == count for name in globs)


async def _longest_gap(kubelet: Kubelet, globs: Globs) -> float:
    """Follow all resources for some seconds, and until all have devices again; give seconds."""
    since: dict[str, float] = {}
    longest, begun = _NEVER, time.monotonic()
    async with asyncio.timeout(LIST_SECONDS):
        while True:
            now = time.monotonic()
            for name in globs:
                if kubelet.allocatable(name) == 0:
                    since.setdefault(name, now)
                elif name in since:
                    longest = max(longest, now - since.pop(name))
            if not since and now - begun > _FOLLOWED_SECONDS:
                return longest
            with suppress(TimeoutError):
                async with asyncio.timeout(_FOLLOWED_SECONDS):
                    await kubelet.changed()
