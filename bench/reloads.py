"""From another version of a config to the kubelet's list of the one resource that is different."""

from __future__ import annotations

import asyncio
import shutil
import time
from itertools import count
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.sides import DAEMON, config_text, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.nodes import Nodes
    from bench.sides import Bench

_GOALS = {1: 500.0, 100: 750.0}
_STILL_SECONDS = 1.0
"""After a reload, for messages that ought not to come."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Swap ``..data`` as the kubelet does; only the daemon takes part, the floor has no config."""
    rounds = 3 if bench.quick else 10
    with nodes(max(_GOALS), bench.scratch) as host:
        for number, goal in _GOALS.items():
            bench.progress.say(f"another config, {number} resources, {rounds} times")
            took, sent = await _reloads(bench, number, host, rounds)
            what = f"a ConfigMap is swapped, one of {number} resources changes"
            yield Line(what=f"{what}, to list", unit="ms", daemon=tuple(took), goal=goal)
            yield Line(what=f"{what}, lists sent", unit="", daemon=tuple(sent), goal=1, worst=True)


async def _reloads(
    bench: Bench, number: int, host: Nodes, rounds: int
) -> tuple[list[float], list[float]]:
    globs = things(number)
    volume = Volume(bench.scratch / f"volume-{number}")
    changed = list(globs)[-1]
    took, sent = [], []
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
            await kubelet.wait_for(
                lambda replicas=replicas: kubelet.capacity(changed) == replicas,  # type: ignore[misc]
                30,
            )
            took.append((kubelet.observed.history[-1].at - since) * 1000)
            await asyncio.sleep(_STILL_SECONDS)
            sent.append(float(sum(kubelet.observed.lists.values()) - before))
    return took, sent


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
