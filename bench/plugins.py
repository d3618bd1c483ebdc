"""Measure a device plugin next to its peer: one function for each measurement."""

from __future__ import annotations

import asyncio
import sys
import time
import urllib.request
from contextlib import AsyncExitStack
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from bench import nodes
from bench.calls import allocating
from bench.kubelet import kubelet
from bench.processes import REPOSITORY, cpu_seconds, free_port, resident_memory
from bench.results import Result, counted, growth, latencies
from bench.runner import DAEMON, PEER, SIDES, Samples, config_text, environment, resources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from bench.kubelet import Kubelet
    from bench.runner import Bench, Registered

_THINGS = {"bench.example.com/thing": f"{nodes.DIRECTORY}/thing-*"}
_MOST = 50
"""Resources, of the measurements by their number."""
_SETTLE_SECONDS = 3.0
"""By then the daemon has made its full scan, and follows events."""
_APART_SECONDS = 0.3
"""Longer than the time within which changes go out together."""
_FOREIGN_EVENTS = 10
_UNITS = {
    "start": "ms",
    "memory": "MB",
    "change": "ms",
    "slowest Allocate meanwhile": "ms",
    "CPU of a foreign event": "ms",
}
"""Of what is measured by the number of devices."""
_GOALS = {"slowest Allocate meanwhile": 50.0, "CPU of a foreign event": 2.0}
_CHANGE_GOALS = {10: 15.0, 100: 15.0, 1_000: 60.0, 5_000: 400.0}
"""Milliseconds, by the number of devices."""
_LINEAR = 1.1


def _result(
    what: str,
    unit: str,
    samples: Mapping[str, Sequence[float]],
    *,
    goal: float | None = None,
    goal_ratio: float | None = None,
) -> Result:
    daemon, peer = samples[DAEMON], samples.get(PEER, ())
    return Result(what=what, unit=unit, daemon=daemon, peer=peer, goal=goal, goal_ratio=goal_ratio)


async def start(bench: Bench) -> AsyncIterator[Result]:
    """From exec to a list of every resource at the kubelet."""

    async def once(count: int, side: str) -> float:
        async with bench.registered(side, resources(count)) as plugin:
            return plugin.milliseconds

    rounds = 3 if bench.quick else 10
    with nodes.nodes(_MOST + 1):
        for count in (1, 10, _MOST):
            bench.say(f"start with {counted(count, 'resource')}, {rounds} rounds")
            took = await bench.in_turns(rounds, partial(once, count))
            yield _result(f"start, {counted(count, 'resource')}", "ms", took, goal_ratio=2.0)


async def memory(bench: Bench) -> AsyncIterator[Result]:
    """Resident memory once all is registered, also after a scrape of metrics."""

    async def once(count: int, side: str, address: str = "") -> float:
        options = (f"--listen={address}",) if address else ()
        async with bench.registered(side, resources(count), options=options) as plugin:
            await asyncio.sleep(_SETTLE_SECONDS)
            if address:
                scrape = partial(urllib.request.urlopen, f"http://{address}/metrics", timeout=30)
                (await asyncio.to_thread(scrape)).close()
            return resident_memory(plugin.pid)

    rounds = 1 if bench.quick else 3
    bench.say(f"memory, {rounds} rounds")
    with nodes.nodes(_MOST + 1):
        for count in (1, _MOST):
            found = await bench.in_turns(rounds, partial(once, count))
            yield _result(f"memory, {counted(count, 'resource')}", "MB", found, goal_ratio=1.15)
        more = [
            await once(1, DAEMON, f"127.0.0.1:{free_port()}") - await once(1, DAEMON)
            for _ in range(rounds)
        ]
    yield _result("more memory with --listen", "MB", {DAEMON: more}, goal=6.0)


async def allocate(bench: Bench) -> AsyncIterator[Result]:
    """Allocate, seen from the other end of the socket, in turns of a second; the first warms up."""
    rounds = 2 if bench.quick else 10
    bench.say(f"Allocate, {rounds} rounds")
    took: Samples = {side: [] for side in SIDES}
    with nodes.nodes(8):
        async with AsyncExitStack() as stack:
            clients = {}
            for side in SIDES:
                plugin = await stack.enter_async_context(bench.registered(side, _THINGS))
                (listed,) = plugin.lists.values()
                clients[side] = await stack.enter_async_context(allocating(listed))
            for number, (side, caller) in product(range(rounds + 1), clients.items()):
                await caller.begin()
                await asyncio.sleep(1.0)
                block = await caller.end()
                took[side] += block if number else ()
    for result in latencies("Allocate, 8 devices", [*took.values()], 1.6):
        yield result


async def _to_list(listening: Kubelet, change: Callable[[int], None], number: int) -> float:
    """Change something off the loop; return the milliseconds until a list has come."""
    since = time.monotonic()
    await asyncio.to_thread(change, number)
    return ((await listening.next_list(since=since)).at - since) * 1000


async def sizes(bench: Bench) -> AsyncIterator[Result]:
    """One resource of many devices: one of them disappears and returns, then others change."""
    turns, changes = (1, 2) if bench.quick else (3, 3)
    grown: dict[str, dict[int, Result]] = {name: {} for name in ("start", "memory", "change")}
    for count, goal in _CHANGE_GOALS.items():
        devices, found = counted(count, "device"), {name: Samples() for name in _UNITS}
        bench.say(f"{devices}, {turns} turns")
        with nodes.nodes(count):
            for _, side in product(range(turns), SIDES):
                async with bench.registered(side, _THINGS) as plugin:
                    sampled = await _sample(bench, plugin, range(count)[-changes:])
                for name, samples in sampled.items():
                    found[name].setdefault(side, []).extend(samples)
        for name, unit in _UNITS.items():
            most = goal if name == "change" else _GOALS.get(name)
            result = _result(f"{name}, {devices}", unit, found[name], goal=most)
            grown.get(name, {})[count] = result
            yield result
    for name, results in grown.items():
        yield growth(name, results, _LINEAR)


async def _sample(bench: Bench, plugin: Registered, numbers: range) -> dict[str, list[float]]:
    await asyncio.sleep(_SETTLE_SECONDS)
    memory_used, took, calls = resident_memory(plugin.pid), list[float](), list[float]()
    (listed,) = plugin.lists.values()
    async with allocating(listed) as caller:
        for number in numbers:
            for change in (nodes.remove, nodes.make):
                # Once by itself, then with calls: these delay the change as well.
                await bench.before_change(_APART_SECONDS)
                took.append(await _to_list(plugin.kubelet, change, number))
            for change in (nodes.remove, nodes.make):
                await asyncio.sleep(_APART_SECONDS)
                await caller.begin(pause_seconds=0.002)  # a kubelet does not use up a core either
                await _to_list(plugin.kubelet, change, number)
                calls += await caller.end()
    await asyncio.sleep(_SETTLE_SECONDS)
    before = cpu_seconds(plugin.pid)
    for _ in range(_FOREIGN_EVENTS):
        nodes.tell_of_another()
        await asyncio.sleep(_APART_SECONDS)
    foreign = (cpu_seconds(plugin.pid) - before) / _FOREIGN_EVENTS * 1000
    values = ([plugin.milliseconds], [memory_used], took, [max(calls)], [foreign])
    return dict(zip(_UNITS, values, strict=True))


async def idle(bench: Bench) -> AsyncIterator[Result]:
    """CPU time a minute while nothing happens, side by side."""
    seconds, windows = (10.0, 1) if bench.quick else (60.0, 3)
    bench.say(f"idle for {windows} times {seconds:.0f} s")
    used: Samples = {side: [] for side in SIDES}
    with nodes.nodes(110):
        async with AsyncExitStack() as stack:
            pids = {}
            for side in SIDES:
                plugin = bench.registered(side, resources(10, "?"))
                pids[side] = (await stack.enter_async_context(plugin)).pid
            await asyncio.sleep(_SETTLE_SECONDS)
            for _ in range(windows):
                before = {side: cpu_seconds(pid) for side, pid in pids.items()}
                await asyncio.sleep(seconds)
                for side, pid in pids.items():
                    used[side].append((cpu_seconds(pid) - before[side]) * 60_000 / seconds)
    yield _result("idle CPU a minute, 10 resources of 10 devices", "ms", used, goal=70.0)


async def restarts(bench: Bench) -> AsyncIterator[Result]:
    """From a new kubelet to a list of every resource at it."""

    async def once(globs: Mapping[str, str], directories: Mapping[str, Path], side: str) -> float:
        async with kubelet(directories[side]) as started:
            lists = await bench.first_lists(side, started, globs)
            await asyncio.sleep(_APART_SECONDS)
            return (max(first.at for first in lists.values()) - started.started) * 1000

    rounds = 2 if bench.quick else 10
    with nodes.nodes(11):
        for count in (1, 10):
            bench.say(f"the kubelet restarts, {counted(count, 'resource')}, {rounds} rounds")
            globs = resources(count)
            async with AsyncExitStack() as stack:
                directories = {side: stack.enter_context(bench.directory()) for side in SIDES}
                for side, directory in directories.items():
                    async with kubelet(directory) as first:
                        await stack.enter_async_context(bench.process(side, globs, directory))
                        await bench.first_lists(side, first, globs)
                took = await bench.in_turns(rounds, partial(once, globs, directories))
            what = f"kubelet restart, {counted(count, 'resource')}"
            yield _result(what, "ms", took, goal_ratio=1.5)


async def commands(bench: Bench) -> AsyncIterator[Result]:
    """Wall time of commands, next to a Python that does nothing."""
    rounds = 3 if bench.quick else 10
    config = bench.scratch / "fuse.yaml"
    config.write_text(config_text({"bench.example.com/fuse": "/dev/fuse"}), encoding="utf-8")

    async def once(words: Sequence[str], side: str) -> float:
        since = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *(("-m", "genericdp", *words) if side == DAEMON else ("-c", "pass")),
            cwd=REPOSITORY,
            env=environment(),
            stdout=asyncio.subprocess.DEVNULL,
        )
        if await process.wait():
            raise RuntimeError(f"genericdp {' '.join(words)} has failed: see above")
        return (time.monotonic() - since) * 1000

    bench.say(f"commands, {rounds} rounds")
    for words, goal in (
        (["--help"], 90.0),
        (["validate", str(config)], 300.0),
        (["hardware"], 400.0),
    ):
        took = await bench.in_turns(rounds, partial(once, words))
        what = f"genericdp {' '.join(words)}".replace(str(config), "FILE")
        yield _result(what, "ms", took, goal=goal)
