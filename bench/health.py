"""What probes cost: the daemon that has them beside the same one without."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from bench import flips
from bench.calls import allocating
from bench.lines import Line, percentile
from bench.nodes import FOLDER, nodes
from bench.processes import cpu_seconds
from bench.sides import DAEMON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

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
_BLOCK_SECONDS = 3.0
_CATCH_UP_SECONDS = 2.5
"""After a stop: 300 commands wait for their turn, and take about half a second."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Let devices flip, then compare."""
    async for line in flips.measure(bench):
        yield line
    with nodes(_DEVICES_OF_START, bench.scratch) as host:
        yield await _start(bench, host, 3 if bench.quick else 9)
    with nodes(_DEVICES, bench.scratch) as host:
        async for line in _allocate(bench, host, 3 if bench.quick else 9):
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
    """Call both in turns; while the one without probes is called, the other one is stopped."""
    rate = _DEVICES // _PERIOD_SECONDS
    bench.progress.say(f"Allocate beside {rate} commands a second, {rounds} rounds")
    beside: list[list[float]] = []
    without: list[list[float]] = []
    async with (
        _daemon(bench, host, "") as bare,
        _daemon(bench, host, _COMMAND) as probing,
        allocating(bare) as allocate_bare,
        allocating(probing) as allocate_probing,
    ):
        await asyncio.sleep(_SETTLE_SECONDS)
        for _ in range(rounds):
            with _stopped(probing.pid):
                await asyncio.sleep(0.1)
                without.append(await _block(allocate_bare))
            await asyncio.sleep(_CATCH_UP_SECONDS)
            beside.append(await _block(allocate_probing))
    for share, name, goal in _ALLOCATE_GOALS:
        with_, bare_ = ([percentile(one, share) for one in blocks] for blocks in (beside, without))
        medians = f"{statistics.median(with_):.2f} and {statistics.median(bare_):.2f} ms"
        yield Line(
            what=f"Allocate with {_DEVICES} exec probes / without, {name}",
            unit="times",
            daemon=tuple(one / other for one, other in zip(with_, bare_, strict=True)),
            goal=goal,
            note=f"{medians}; every {_PERIOD_SECONDS} s",
        )


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def _block(allocate: Callable[[], Awaitable[float]]) -> list[float]:
    loop = asyncio.get_running_loop()
    until = loop.time() + _BLOCK_SECONDS
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
