"""Allocate while the daemon has something else to do; beside it the same daemon at rest."""

from __future__ import annotations

import asyncio
import shutil
import statistics
from typing import TYPE_CHECKING

from bench import trees
from bench.calls import allocating, block, block_for, block_while
from bench.nodes import FOLDER, nodes
from bench.processes import cpu_seconds
from bench.quantiles import quantiles
from bench.reloads import Volume
from bench.sides import DAEMON, config_text, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.lines import Line
    from bench.sides import Bench

_RESOURCES = 100
_ADAPTERS = 2_500
_DEVICES = 4 * _ADAPTERS
_BY_NAME = {"bench.example.com/tty": '{name: "ttyUSB12?"}'}
"""Without a subsystem: every device of sysfs is looked at."""
_MANY = (1_000, 10_000)
_REST_SECONDS = 0.4
_LOOK_BEGINS_SECONDS = 0.05
_DURING_LOOK_SECONDS = 0.25
_LOOK_ENDS_SECONDS = 1.2
"""After which the pass has ended, and the pause after it."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Reload, then look at everything, again and again."""
    async for line in _during_reloads(bench, 4 if bench.quick else 8):
        yield line
    async for line in _during_passes(bench, 4 if bench.quick else 8):
        yield line
    for many in _MANY:
        async for line in _during_changes(bench, many, 4 if bench.quick else 8):
            yield line


async def _during_reloads(bench: Bench, rounds: int) -> AsyncIterator[Line]:
    bench.progress.say(f"Allocate during reloads of {_RESOURCES} resources, {rounds} times")
    globs, volume = things(_RESOURCES), Volume(bench.scratch / "volume-of-calls")
    changed = list(globs)[-1]
    volume.swap(config_text(globs))
    during, at_rest = [], []
    with nodes(_RESOURCES, bench.scratch) as host:
        async with (
            bench.kubelet() as kubelet,
            bench.registered(
                DAEMON, kubelet, globs, root=host.root, config=volume.folder
            ) as plugin,
            allocating(plugin) as allocate,
        ):
            await block(allocate, 100)
            for replicas in range(2, rounds + 2):
                await asyncio.sleep(_REST_SECONDS)
                volume.swap(config_text(globs) + f"    replicas: {replicas}\n")

                def goes_on(replicas: int = replicas) -> bool:
                    return kubelet.capacity(changed) != replicas

                during.append(await block_while(allocate, goes_on))
                await asyncio.sleep(_REST_SECONDS)
                at_rest.append(await block(allocate, len(during[-1])))
    what = f"Allocate during a reload of {_RESOURCES} resources"
    for line in quantiles(what, during, at_rest, beside="at rest"):
        yield line


async def _during_passes(bench: Bench, rounds: int) -> AsyncIterator[Line]:
    bench.progress.say(f"Allocate during looks at {_DEVICES} devices, {rounds} times")
    tree = bench.scratch / "calls-machine"
    tree.mkdir()
    during, at_rest, computed = [], [], []
    try:
        await asyncio.to_thread(trees.make, tree, _ADAPTERS)
        async with (
            bench.kubelet() as kubelet,
            bench.registered(DAEMON, kubelet, _BY_NAME, root=tree) as plugin,
            allocating(plugin) as allocate,
        ):
            await block(allocate, 100)
            await asyncio.sleep(_LOOK_ENDS_SECONDS)
            for number in range(rounds):
                before = cpu_seconds(plugin.pid)
                _cause_a_look(tree, number)
                await asyncio.sleep(_LOOK_BEGINS_SECONDS)
                during.append(await block_for(allocate, _DURING_LOOK_SECONDS))
                await asyncio.sleep(_LOOK_ENDS_SECONDS)
                computed.append(cpu_seconds(plugin.pid) - before)
                at_rest.append(await block(allocate, len(during[-1])))
    finally:
        await asyncio.to_thread(shutil.rmtree, tree)
    note = f"a look and the calls during it took {statistics.median(computed):.2f} s of a core"
    what = f"Allocate during a look at {_DEVICES} sysfs devices"
    for line in quantiles(what, during, at_rest, beside="at rest", note=note):
        yield line


async def _during_changes(bench: Bench, many: int, rounds: int) -> AsyncIterator[Line]:
    bench.progress.say(f"Allocate while one of {many} nodes vanishes or returns, {rounds} times")
    name = "bench.example.com/thing"
    during, at_rest = [], []
    with nodes(many, bench.scratch) as host:
        async with (
            bench.kubelet() as kubelet,
            bench.registered(
                DAEMON, kubelet, {name: f"/dev/{FOLDER}/thing-*"}, root=host.root
            ) as plugin,
            allocating(plugin) as allocate,
        ):
            await block(allocate, 100)
            for number in range(rounds):
                await asyncio.sleep(_REST_SECONDS)
                healthy = kubelet.allocatable(name)
                changed = many - 1 - number // 2  # never the one that is allocated
                await asyncio.to_thread(host.make if number % 2 else host.remove, changed)

                def goes_on(healthy: int = healthy) -> bool:
                    return kubelet.allocatable(name) == healthy

                during.append(await block_while(allocate, goes_on))
                await asyncio.sleep(_REST_SECONDS)
                at_rest.append(await block(allocate, max(20, len(during[-1]))))
    what = f"Allocate while one of {many} nodes changes"
    for line in quantiles(what, during, at_rest, beside="at rest"):
        yield line


def _cause_a_look(tree: Path, number: int) -> None:
    """Let a file appear in a copied tree, of whose sysfs nobody tells anything."""
    (tree / "dev" / f"nothing-{number}").touch()
