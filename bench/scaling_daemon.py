"""What the daemon costs as a process, from its start to a restart of the kubelet."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.calls import allocating, block
from bench.processes import cpu_seconds, memory
from bench.reloads import Volume
from bench.sides import DAEMON, config_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.scaling_fit import Page
    from bench.sides import Bench, Globs, Plugin
    from genericdp.simulator.kubelet import Kubelet

STARTS = 3
_TIMES = 3
_EVENTS = 3
"""So many nodes, each of which vanishes and returns."""
_CALLS = 200
_SETTLE_SECONDS = 1.5
_STILL_SECONDS = 0.4
"""After something has happened, for what follows of it."""
_DOWN_SECONDS = 0.7
_TICK_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class _Daemon:
    """One that runs, and where to note what is measured of it."""

    plugin: Plugin
    kubelet: Kubelet
    volume: Volume
    globs: Globs
    notes: Page

    def cpu(self) -> float:
        """Give its CPU time so far, that of its children that have ended too, in milliseconds."""
        text = Path(f"/proc/{self.plugin.pid}/stat").read_text(encoding="utf-8")
        user, system = text.rpartition(")")[2].split()[13:15]
        children = (int(user) + int(system)) * _TICK_SECONDS
        return (cpu_seconds(self.plugin.pid) + children) * 1000

    async def events(self, host: Nodes) -> None:
        """Let nodes of the last resource vanish and return."""
        name = next(reversed(self.globs))
        last = max(int(one.rpartition("-")[2]) for one in self.kubelet.devices(name))
        numbers = range(last - min(_EVENTS, len(self.kubelet.devices(name))) + 1, last + 1)
        took = []
        for number in numbers:
            for change in (host.remove, host.make):
                lists = self.kubelet.observed.lists[name]
                before = self.cpu()
                await asyncio.to_thread(change, number)
                await self.kubelet.wait_for(partial(self._listed_since, name, lists), 30)
                await asyncio.sleep(_STILL_SECONDS)
                took.append(self.cpu() - before)
        self.notes.note("process", "one event", statistics.median(took))

    def _listed_since(self, name: str, lists: int) -> bool:
        return self.kubelet.observed.lists[name] > lists

    async def restarts(self) -> None:
        """Stop the kubelet and start it again."""
        took, used = [], []
        for _ in range(_TIMES):
            await self.kubelet.stop()
            await asyncio.sleep(_DOWN_SECONDS)
            before, since = self.cpu(), time.monotonic()
            await self.kubelet.start()
            took.append(await self.plugin.listed(since) * 1000)
            await asyncio.sleep(_STILL_SECONDS)
            used.append(self.cpu() - before)
        self.notes.note("waits", "kubelet restart to all listed", min(took))
        self.notes.note("process", "kubelet restart", min(used))

    async def reloads(self) -> None:
        """Change the last resource of the config, again and again."""
        name, took, used = next(reversed(self.globs)), [], []
        devices = len(self.kubelet.devices(name))
        for replicas in [2, 1] * (_TIMES // 2 + 1):
            before, since = self.cpu(), time.monotonic()
            self.volume.swap(config_text(self.globs) + f"    replicas: {replicas}\n")
            wanted = replicas * devices
            await self.kubelet.wait_for(partial(self._has, name, wanted), 30)
            took.append((time.monotonic() - since) * 1000)
            await asyncio.sleep(_STILL_SECONDS)
            used.append(self.cpu() - before)
        self.notes.note("waits", "reload of one changed resource", min(took))
        self.notes.note("process", "reload, its child included", min(used))

    def _has(self, name: str, capacity: int) -> bool:
        return self.kubelet.capacity(name) == capacity

    async def allocations(self) -> None:
        """Call Allocate, one call after the other."""
        async with allocating(self.plugin) as call:
            await block(call, _CALLS // 4)
            self.notes.note("waits", "Allocate, p50", statistics.median(await block(call, _CALLS)))


async def served(
    bench: Bench, globs: Globs, root: Path, notes: Page, host: Nodes | None = None
) -> None:
    """Start the daemon a few times; with a ``host`` do more to the last one."""
    wall, cpu = [], []
    for last in [False] * (STARTS - 1) + [True]:
        async with _running(bench, globs, root, notes) as daemon:
            plugin = daemon.plugin
            wall.append(await plugin.listed(plugin.started) * 1000)
            await asyncio.sleep(_STILL_SECONDS)
            cpu.append(cpu_seconds(plugin.pid) * 1000)
            if not last:
                continue
            await asyncio.sleep(_SETTLE_SECONDS)
            notes.note("memory", "private memory", memory(plugin.pid).own)
            if host is not None:
                await daemon.events(host)
                await daemon.allocations()
                await daemon.restarts()
                await daemon.reloads()
    notes.note("waits", "start to registered", min(wall))
    notes.note("process", "start", min(cpu))


@asynccontextmanager
async def _running(bench: Bench, globs: Globs, root: Path, notes: Page) -> AsyncIterator[_Daemon]:
    volume = Volume(bench.scratch / f"volume-{time.monotonic_ns()}")
    volume.swap(config_text(globs))
    async with (
        bench.kubelet() as kubelet,
        bench.registered(DAEMON, kubelet, globs, root=root, config=volume.folder) as plugin,
    ):
        yield _Daemon(plugin=plugin, kubelet=kubelet, volume=volume, globs=globs, notes=notes)
