"""From another version of a config to the list of the one resource that is different."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from typing import TYPE_CHECKING

from bench.nodes import nodes
from bench.results import Result, counted
from bench.runner import DAEMON, config_text, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.nodes import Nodes
    from bench.runner import Bench

_GOALS = {1: 500.0, 100: 750.0}
"""Milliseconds, by the number of resources."""
_APART_SECONDS = 1.0
_versions = itertools.count()


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Swap ``..data`` as the kubelet does; the peers do not reload a config."""
    rounds = 3 if bench.quick else 7
    with nodes(max(_GOALS), bench.scratch) as host:
        for count, goal in _GOALS.items():
            bench.say(f"another config, {count} resources, {rounds} times")
            took = await _reloads(bench, count, host, rounds)
            what = f"config reload, {counted(count, 'resource')}"
            yield Result(what=what, unit="ms", daemon=took, goal=goal)


async def _reloads(bench: Bench, count: int, host: Nodes, rounds: int) -> list[float]:
    """Return the milliseconds to the changed list, for each reload."""
    text, took = config_text(things(count)), list[float]()
    with bench.folder() as volume:
        (volume / "config.yaml").symlink_to("..data/config.yaml")
        _swap(volume, text)
        async with bench.registered(DAEMON, things(count), root=host.root, config=volume) as plugin:
            for replicas in range(2, rounds + 2):
                await asyncio.sleep(_APART_SECONDS)
                since = time.monotonic()
                _swap(volume, f"{text}    replicas: {replicas}\n")
                changed = await plugin.kubelet.next_list(since=since)
                took.append((changed.at - since) * 1000)
    return took


def _swap(volume: Path, text: str) -> None:
    """Write a version of the config as the kubelet writes a ConfigMap's volume."""
    data, fresh = volume / "..data", volume / "..data_tmp"
    old = data.resolve() if data.is_symlink() else None
    version = volume / f"..{next(_versions)}"
    version.mkdir()
    (version / "config.yaml").write_text(text, encoding="utf-8")
    fresh.symlink_to(version.name)
    fresh.rename(data)
    if old is not None:
        shutil.rmtree(old)
