"""What probes cost: the daemon that has them beside the same one without."""

from __future__ import annotations

import asyncio
import statistics
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from bench import flips
from bench.calls import allocating
from bench.lines import Line, percentile
from bench.nodes import FOLDER, nodes
from bench.processes import cpu_seconds
from bench.sides import DAEMON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bench.nodes import Nodes
    from bench.sides import Bench, Plugin

_DEVICES = 1_000
_DEVICES_OF_START = 100
_PERIOD_SECONDS = 10
_GLOBS = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
_COMMAND = "{exec: {command: [/bin/true, $(device.path)]}}"
_FILE = f'{{file: {{path: /dev/{FOLDER}/states/$(device.name), equals: "1"}}}}'
_ALLOCATE_GOALS = ((0.50, "p50", 1.5), (0.99, "p99", 3.0))
_FILE_GOAL = 1.0
_SETTLE_SECONDS = 1.5 * _PERIOD_SECONDS
"""After the first round: by then the second runs are spread over their period."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Let devices flip, then compare."""
    async for line in flips.measure(bench):
        yield line
    with nodes(_DEVICES_OF_START, bench.scratch) as host:
        yield await _start(bench, host, 3 if bench.quick else 9)
    with nodes(_DEVICES, bench.scratch) as host:
        async for line in _allocate(bench, host, 1 if bench.quick else 3):
            yield line
        states = host.folder / "states"
        states.mkdir()
        for number in range(_DEVICES):
            (states / f"thing-{number}").write_text("1")
        yield await _files(bench, host, 20.0 if bench.quick else 40.0)


@asynccontextmanager
async def _daemon(bench: Bench, host: Nodes, health: str) -> AsyncIterator[Plugin]:
    async with (
        bench.kubelet() as kubelet,
        bench.registered(DAEMON, kubelet, _GLOBS, root=host.root, health=health) as plugin,
    ):
        yield plugin


async def _start(bench: Bench, host: Nodes, rounds: int) -> Line:
    count = _DEVICES_OF_START
    bench.progress.say(f"start with {count} devices, with exec probes and without, {rounds} rounds")
    took: dict[str, list[float]] = {_COMMAND: [], "": []}
    for _ in range(rounds):
        for health, samples in took.items():
            async with _daemon(bench, host, health) as plugin:
                samples.append(await plugin.listed(plugin.started) * 1000)
    return Line(
        what=f"exec to listed, {count} devices with exec probes",
        unit="ms",
        daemon=tuple(took[_COMMAND]),
        baseline=tuple(took[""]),
        note="beside it the daemon without probes; it registers with the first results",
    )


async def _allocate(bench: Bench, host: Nodes, rounds: int) -> AsyncIterator[Line]:
    """Call the one without probes, then, once it has settled, the one with them."""
    seconds = 4.0 if bench.quick else 8.0
    rate = _DEVICES // _PERIOD_SECONDS
    bench.progress.say(f"Allocate beside {rate} commands a second, {rounds} rounds")
    calls: dict[str, list[list[float]]] = {"": [], _COMMAND: []}
    for _ in range(rounds):
        for health, blocks in calls.items():
            async with _daemon(bench, host, health) as plugin, allocating(plugin) as allocate:
                await asyncio.sleep(_SETTLE_SECONDS if health else 1.0)
                await _block(allocate, 1.0)  # warms up
                blocks.append(await _block(allocate, seconds))
    for share, name, goal in _ALLOCATE_GOALS:
        without, beside = (
            [percentile(block, share) for block in calls[health]] for health in ("", _COMMAND)
        )
        medians = f"{statistics.median(beside):.2f} and {statistics.median(without):.2f} ms"
        yield Line(
            what=f"Allocate with {_DEVICES} exec probes / without, {name}",
            unit="times",
            daemon=tuple(one / other for one, other in zip(beside, without, strict=True)),
            goal=goal,
            note=f"{medians}; every {_PERIOD_SECONDS} s",
        )


async def _block(allocate: Callable[[], Awaitable[float]], seconds: float) -> list[float]:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    samples = []
    while loop.time() < until:
        samples.append(await allocate())
    return samples


async def _files(bench: Bench, host: Nodes, seconds: float) -> Line:
    """Let both run side by side; the simulator does not disturb them."""
    bench.progress.say(f"{_DEVICES} devices with file probes for {seconds:.0f} s")
    async with AsyncExitStack() as stack:
        plugins = [
            await stack.enter_async_context(_daemon(bench, host, health)) for health in (_FILE, "")
        ]
        await asyncio.sleep(_SETTLE_SECONDS)
        before = [cpu_seconds(one.pid) for one in plugins]
        await asyncio.sleep(seconds)
        used = [cpu_seconds(one.pid) for one in plugins]
    shares = [(after - since) / seconds * 100 for after, since in zip(used, before, strict=True)]
    return Line(
        what=f"CPU of {_DEVICES} file probes every {_PERIOD_SECONDS} s",
        unit="% of a core",
        daemon=(shares[0] - shares[1],),
        goal=_FILE_GOAL,
        note=f"{shares[0]:.2f} with and {shares[1]:.2f} without, for {seconds:.0f} s",
    )
