"""One instance takes another's place: how long any resource is without healthy devices (K10)."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.sides import DAEMON, LIST_SECONDS, things
from genericdp.simulator.settings import Generation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench, Globs
    from genericdp.simulator.kubelet import Kubelet

_GOAL = 1000.0
_PROBE = "exec: {command: [/bin/sleep, '0.1']}\n        periodSeconds: 5"
_CASES = ((1, ""), (50, ""), (50, _PROBE))
_NEVER = 0.0


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Start the new one beside the old one, then end the old one, as a surge does."""
    rounds = 2 if bench.quick else 5
    with nodes(50, bench.scratch) as host:
        for generation in Generation:
            for count, probe in _CASES:
                about = f"{count} resources{', a probe of 100 ms each' if probe else ''}"
                bench.progress.say(f"a surge, kubelet {generation}, {about}, {rounds} times")
                took = [
                    await _surge(bench, generation, things(count), host, probe, number)
                    for number in range(rounds)
                ]
                yield Line(
                    what=f"a surge's old instance ends, no devices, kubelet {generation}, {about}",
                    unit="ms",
                    daemon=tuple(took),
                    goal=_GOAL,
                    worst=True,
                )


async def _surge(
    bench: Bench, generation: Generation, globs: Globs, host: Nodes, probe: str, number: int
) -> float:
    """Give the longest time that a resource was without, in milliseconds."""
    how = signal.SIGKILL if number % 2 else signal.SIGTERM
    async with bench.kubelet(generation) as kubelet:
        old = bench.registered(DAEMON, kubelet, globs, root=host.root, health=probe)
        new = bench.registered(DAEMON, kubelet, globs, root=host.root, health=probe)
        async with old as leaving, new:
            await kubelet.wait_for(
                lambda: all(kubelet.streams(name) == 2 for name in globs), LIST_SECONDS
            )
            await asyncio.sleep(1.0)
            leaving.process.send_signal(how)
            return await _longest_gap(kubelet, globs) * 1000


async def _longest_gap(kubelet: Kubelet, globs: Globs) -> float:
    """Follow all resources until each has one stream and devices again; give seconds."""
    since: dict[str, float] = {}
    longest = _NEVER
    async with asyncio.timeout(LIST_SECONDS):
        while True:
            now = time.monotonic()
            for name in globs:
                if kubelet.allocatable(name) == 0:
                    since.setdefault(name, now)
                elif name in since:
                    longest = max(longest, now - since.pop(name))
            if not since and all(kubelet.streams(name) == 1 for name in globs):
                return longest
            await kubelet.changed()
