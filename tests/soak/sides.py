"""The kubelet of a chapter: the simulated one of both generations, or a real one."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import grpc
from genericdp.observed import next_change
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation

from tests.e2e.cluster import listing
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.soak.config import DOMAIN
from tests.soak.record import HEALTHY

Ending = Literal["stopped", "killed", "wiped"]
"""In good order, or not; the last one: and its directory is removed."""
Lists = dict[str, dict[str, str]]
"""State of each device by its id, by the resource's type."""


class SimulatedSide:
    """The simulator in this process; an upgrade or a downgrade is a restart."""

    healthy_only = False
    """Whether it only shows which devices are healthy."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.kubelet = Kubelet(directory)
        self.starts: Counter[str] = Counter()

    async def start(self, generation: str) -> None:
        observed = self.kubelet.observed
        self.kubelet = Kubelet(self.directory, generation=Generation(generation or "B"))
        self.kubelet.observed = observed
        await self.kubelet.start()
        self.starts[f"generation {generation or 'B'}, simulated"] += 1

    async def end(self, how: Ending) -> None:
        if how == "stopped":
            await self.kubelet.stop()
        else:
            await self.kubelet.crash()
        while how == "wiped" and self.directory.exists():
            # The daemon removes its sockets meanwhile.
            shutil.rmtree(self.directory, ignore_errors=True)

    async def lists(self) -> Lists:
        """Give what it has been sent last of each resource."""
        known = {**self.kubelet.observed.registrations}
        return {_kind(name): self.kubelet.devices(name) for name in known}

    async def changed(self, seconds: float) -> None:
        """Wait until something may have changed, at most this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await next_change(self.kubelet.changes)

    def socket(self, kind: str) -> Path | None:
        """Give the plugin's socket on which it would call Allocate."""
        paths = self.kubelet.paths(f"{DOMAIN}/{kind}")
        return Path(paths[-1]) if paths else None

    def connected(self, kind: str) -> set[Path]:
        """Give the sockets that it is connected to, also those that it has lost track of."""
        return set(map(Path, self.kubelet.paths(f"{DOMAIN}/{kind}")))

    def registrations(self) -> Mapping[str, int]:
        return {_kind(name): n for name, n in self.kubelet.observed.registrations.items()}


class RealSide:
    """A node of the end-to-end tests; its pod-resources service shows what it knows."""

    healthy_only = True

    def __init__(self, node: Node) -> None:
        self.directory = DEVICE_PLUGINS
        self.starts: Counter[str] = Counter()
        self._node = node
        self._resources = listing.PodResources(node.directory)

    async def start(self, generation: str) -> None:
        await asyncio.to_thread(self._node.start_kubelet)
        self.starts[f"{self._node.version}, real"] += 1

    async def end(self, how: Ending) -> None:
        stop = self._node.stop_kubelet if how == "stopped" else self._node.kill_kubelet
        await asyncio.to_thread(stop)

    async def lists(self) -> Lists:
        try:
            reported = await asyncio.to_thread(self._resources.allocatable)
        except grpc.RpcError:
            reported = {}  # it is starting
        return {
            _kind(name): dict.fromkeys(ids, HEALTHY)
            for name, ids in reported.items()
            if name.startswith(f"{DOMAIN}/")
        }

    async def changed(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.02))  # noqa: TID251 -- the pauses of a soak are its steps

    def socket(self, kind: str) -> Path | None:
        found = self._sockets(kind)
        return max(found)[1] if found else None

    def connected(self, kind: str) -> set[Path]:
        newest = self.socket(kind)
        return set() if newest is None else {newest}

    def registrations(self) -> Mapping[str, int]:
        # A registration has a socket of its own, numbered; the kubelet's log would show as much.
        return {}

    def _sockets(self, kind: str) -> list[tuple[int, Path]]:
        digest = hashlib.sha256(f"{DOMAIN}/{kind}".encode()).hexdigest()[:12]
        found = []
        for path in self.directory.glob(f"genericdp-{digest}-*.sock"):
            with suppress(OSError):
                found.append((path.stat().st_ctime_ns, path))
        return found


Side = SimulatedSide | RealSide


def _kind(name: str) -> str:
    return name.removeprefix(f"{DOMAIN}/")
