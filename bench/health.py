"""What probes cost: the daemon that has them beside the same one without."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import FOLDER, nodes
from bench.processes import cpu_seconds
from bench.sides import DAEMON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench, Plugin

DEVICES = 1_000
_DEVICES_OF_START = 100
PERIOD_SECONDS = 10
_GLOBS = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
COMMAND = "{exec: {command: [/bin/true, $(device.path)]}}"
_FILE = f'{{file: {{path: /dev/{FOLDER}/states/$(device.name), equals: "1"}}}}'
_FILE_GOAL = 1.0
SETTLE_SECONDS = 1.5 * PERIOD_SECONDS
"""After the first round: by then the second runs are spread over their period."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Start with probes, then leave them alone."""
    with nodes(_DEVICES_OF_START, bench.scratch) as host:
        yield await _start(bench, host, 3 if bench.quick else 9)
    with nodes(DEVICES, bench.scratch) as host:
        states = host.folder / "states"
        states.mkdir()
        for number in range(DEVICES):
            (states / f"thing-{number}").write_text("1")
        yield await _files(bench, host, 20.0 if bench.quick else 40.0)


@asynccontextmanager
async def with_probes(bench: Bench, host: Nodes, health: str) -> AsyncIterator[Plugin]:
    """Run the daemon; ``health``: its probe, if any."""
    async with (
        bench.kubelet() as kubelet,
        bench.registered(DAEMON, kubelet, _GLOBS, root=host.root, health=health) as plugin,
    ):
        yield plugin


async def _start(bench: Bench, host: Nodes, rounds: int) -> Line:
    count = _DEVICES_OF_START
    bench.progress.say(f"start with {count} devices, with exec probes and without, {rounds} rounds")
    took: dict[str, list[float]] = {COMMAND: [], "": []}
    for _ in range(rounds):
        for health, samples in took.items():
            async with with_probes(bench, host, health) as plugin:
                samples.append(await plugin.listed(plugin.started) * 1000)
    return Line(
        what=f"exec to listed, {count} devices with exec probes",
        unit="ms",
        daemon=tuple(took[COMMAND]),
        baseline=tuple(took[""]),
        note="beside it the daemon without probes; it registers with the first results",
    )


async def _files(bench: Bench, host: Nodes, seconds: float) -> Line:
    """Let both run side by side; the simulator does not disturb them."""
    bench.progress.say(f"{DEVICES} devices with file probes for {seconds:.0f} s")
    async with AsyncExitStack() as stack:
        plugins = [
            await stack.enter_async_context(with_probes(bench, host, health))
            for health in (_FILE, "")
        ]
        await asyncio.sleep(SETTLE_SECONDS)
        before = [cpu_seconds(one.pid) for one in plugins]
        await asyncio.sleep(seconds)
        used = [cpu_seconds(one.pid) for one in plugins]
    shares = [(after - since) / seconds * 100 for after, since in zip(used, before, strict=True)]
    return Line(
        what=f"CPU of {DEVICES} file probes every {PERIOD_SECONDS} s",
        unit="% of a core",
        daemon=(shares[0] - shares[1],),
        goal=_FILE_GOAL,
        note=f"{shares[0]:.2f} with and {shares[1]:.2f} without, for {seconds:.0f} s",
    )
