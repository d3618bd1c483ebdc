"""From another version of a config to the kubelet's list of the one resource that is different."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.sides import DAEMON, config_text, things
from genericdp.reloading.reloader import ReloadPace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.nodes import Nodes
    from bench.sides import Bench
    from genericdp.simulator.kubelet import Kubelet

_GOALS = {1: 500.0, 100: 750.0}
_READS = 3
_WAIT_MS = ReloadPace().settle * 1000
"""Until nothing more is written: a part of the daemon's time that no machine makes shorter."""
_BARE_READ = """\
import sys, jsonschema, yaml
with open(sys.argv[1]) as config:
    yaml.load(config, Loader=yaml.CSafeLoader)
"""
_STILL_SECONDS = 0.5
"""After a reload, for messages that ought not to come."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Swap ``..data`` as the kubelet does; the floor has no config, so only the daemon has one."""
    rounds = 3 if bench.quick else 7
    with nodes(max(_GOALS), bench.scratch) as host:
        for number, goal in _GOALS.items():
            bench.progress.say(f"another config, {number} resources, {rounds} times")
            took = await _reloads(bench, number, host, rounds)
            what = f"a ConfigMap is swapped, one of {number} resources changes"
            yield Line(
                what=f"{what}, to list",
                unit="ms",
                daemon=tuple(took.reloads),
                baseline=tuple(took.reads),
                beside="pause, bare read",
                goal=goal,
                note=f"beside it the {_WAIT_MS:g} ms for which it waits on purpose, and a process"
                " that imports PyYAML and jsonschema and parses the file",
            )
            sent = tuple(took.sent)
            yield Line(what=f"{what}, lists sent", unit="", daemon=sent, goal=1, worst=True)


@dataclass(slots=True)
class _Took:
    """Milliseconds, and how many lists were sent."""

    reloads: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)


async def _reloads(bench: Bench, number: int, host: Nodes, rounds: int) -> _Took:
    globs = things(number)
    volume = Volume(bench.scratch / f"volume-{number}")
    changed = list(globs)[-1]
    took = _Took()
    volume.swap(config_text(globs))
    async with (
        bench.kubelet() as kubelet,
        bench.registered(DAEMON, kubelet, globs, root=host.root, config=volume.folder),
    ):
        for replicas in range(2, rounds + 2):
            await asyncio.sleep(_STILL_SECONDS)
            before = sum(kubelet.observed.lists.values())
            since = time.monotonic()
            volume.swap(config_text(globs) + f"    replicas: {replicas}\n")
            await kubelet.wait_for(partial(_has, kubelet, changed, replicas), 30)
            took.reloads.append((kubelet.observed.history[-1].at - since) * 1000)
            await asyncio.sleep(_STILL_SECONDS)
            took.sent.append(float(sum(kubelet.observed.lists.values()) - before))
            took.reads += [await _bare_read(volume.folder / "config.yaml") for _ in range(_READS)]
    return took


def _has(kubelet: Kubelet, resource: str, replicas: int) -> bool:
    return kubelet.capacity(resource) == replicas


async def _bare_read(config: Path) -> float:
    """Parse it in a process of its own, as the daemon does; its wait is added, not waited."""
    since = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BARE_READ, os.fspath(config)
    )
    if await process.wait():
        raise RuntimeError("the config cannot be parsed")
    return _WAIT_MS + (time.monotonic() - since) * 1000


class Volume:
    """A volume that holds one file, as the kubelet writes it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._versions = count()
        (folder / "config.yaml").symlink_to("..data/config.yaml")

    def swap(self, text: str) -> None:
        data, fresh = self.folder / "..data", self.folder / "..data_tmp"
        old = data.resolve() if data.is_symlink() else None
        version = self.folder / f"..2026_11_21_14_00_00.{next(self._versions)}"
        version.mkdir()
        (version / "config.yaml").write_text(text, encoding="utf-8")
        fresh.symlink_to(version.name)
        fresh.rename(data)
        if old is not None:
            shutil.rmtree(old)
