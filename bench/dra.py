"""What devices and claims cost that DRA serves, next to a bare driver or the device plugin."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bench.claims import PER_SECOND, client
from bench.cluster import NODE
from bench.nodes import FOLDER, nodes
from bench.processes import cpu_seconds, helper, resident_memory
from bench.results import Result, counted, latencies
from bench.runner import DAEMON, PEER, config_text
from genericdp.apiserver import SLICES, ApiClient, of_kubeconfig
from genericdp.settings import DRIVER

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from bench.claims import Claims
    from bench.nodes import Nodes
    from bench.processes import Helper
    from bench.runner import Bench
    from genericdp.apiserver import Event

_FEW, _MANY = 8, 1_000
_PER_SLICE = 64
_NAME = "bench.example.com/thing"
_GLOBS = {_FEW: f"/dev/{FOLDER}/thing-[0-7]", _MANY: f"/dev/{FOLDER}/thing-*"}
"""By the number of devices."""
_CHANGE_GOAL, _RESTART_GOAL = 300.0, 2000.0
_MEMORY_GOAL = 20.0
_PATIENCE_SECONDS = 60.0
_SETTLE_SECONDS = 3.0
_APART_SECONDS = 0.5


@dataclass(kw_only=True)
class _Watched:
    """A node whose ResourceSlices are watched."""

    cluster: Helper
    api: ApiClient
    process: Process
    socket: Path
    events: AsyncIterator[Event]
    devices: dict[str, list[str]] = field(default_factory=dict)
    """By slice."""
    updates: int = 0
    """How many there were of slices."""

    async def until(self, count: int, *, without: frozenset[str] = frozenset()) -> None:
        """Wait until slices show so many devices, and none is of ``without``."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self.count != count or without & self.devices.keys():
                    self._take(*await anext(self.events))
        except TimeoutError as error:
            raise RuntimeError(f"{self.count} devices are in slices, not {count}") from error

    def _take(self, kind: str, one: dict[str, Any]) -> None:
        if kind == "DELETED":
            del self.devices[one["metadata"]["name"]]
        elif kind != "BOOKMARK":
            devices = [it["name"] for it in one["spec"].get("devices", ())]
            self.devices[one["metadata"]["name"]] = devices
            self.updates += kind == "MODIFIED"

    @property
    def count(self) -> int:
        """How many devices the slices show."""
        return sum(map(len, self.devices.values()))


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Change devices, restart the kubelet, prepare claims; then look at memory and CPU time."""
    turns, changes = (1, 3) if bench.quick else (3, 5)
    with nodes(_MANY, bench.scratch) as host:
        # As in bench/sizes.py: without root each change has all of a copied tree looked at.
        numbers = range(8 - changes if host.real else 7, 8)
        for count in _GLOBS:
            devices = counted(count, "device")
            bench.say(f"ResourceSlices of {devices}, {turns} turns")
            changed, restarted, updates, slices = (list[float]() for _ in range(4))
            for _ in range(turns):
                async with _serving(bench, host, count) as node:
                    for number in numbers:
                        for change, left in ((host.remove, count - 1), (host.make, count)):
                            await asyncio.sleep(_APART_SECONDS)
                            before = node.updates
                            changed.append(await _to_slice(node, change, number, left))
                            updates.append(node.updates - before)
                    for _ in range(2):
                        await asyncio.sleep(_SETTLE_SECONDS)
                        restarted.append(await _restart(node, count))
                    slices.append(len(node.devices))
            yield Result(
                what=f"change, in a slice, {devices}", unit="ms", daemon=changed, goal=_CHANGE_GOAL
            )
            yield Result(
                what=f"kubelet restart, {devices}", unit="ms", daemon=restarted, goal=_RESTART_GOAL
            )
            yield Result(
                what=f"slices, {devices}", unit="", daemon=slices, goal=-(-count // _PER_SLICE)
            )
            yield Result(what=f"updates by a change, {devices}", unit="", daemon=updates, goal=1.0)
        for result in await _claims(bench, host, seconds=3 if bench.quick else 5, turns=turns):
            yield result
        for result in await _at_rest(bench, host, seconds=5.0 if bench.quick else 30.0):
            yield result


async def _to_slice(node: _Watched, change: Callable[[int], None], number: int, left: int) -> float:
    since = time.monotonic()
    await asyncio.to_thread(change, number)
    await node.until(left)
    return (time.monotonic() - since) * 1000


async def _restart(node: _Watched, count: int) -> float:
    before = frozenset(node.devices)
    since = time.monotonic()
    node.cluster.stdin.write(b"restart\n")
    await node.until(count, without=before)
    return (time.monotonic() - since) * 1000


async def _claims(bench: Bench, host: Nodes, *, seconds: int, turns: int) -> list[Result]:
    """Have claims prepared by the daemon and by a bare driver in turns."""
    bench.say(f"claims, {PER_SECOND} a second, {turns} turns of {seconds} s")
    prepared: dict[str, list[float]] = {DAEMON: [], PEER: []}
    unprepared: dict[str, list[float]] = {DAEMON: [], PEER: []}
    with bench.folder() as folder:
        bare = folder / "bare.sock"
        async with _serving(bench, host, _MANY) as node, helper("bench.bare_driver", bare) as peer:
            await peer.stdout.readline()
            async with client(node.socket) as of_daemon, client(bare) as of_peer:
                for number in range(turns + 1):
                    for side, caller in ((DAEMON, of_daemon), (PEER, of_peer)):
                        # The first turn warms up.
                        count = PER_SECOND * (seconds if number else 2)
                        both = await _prepare(node, caller, count)
                        if number:
                            prepared[side] += both[0]
                            unprepared[side] += both[1]
    return [
        *latencies(
            f"Prepare, {PER_SECOND} a second",
            prepared[DAEMON],
            prepared[PEER],
            p50_goal=15.0,
            p99_goal=100.0,
        ),
        *latencies(f"Unprepare, {PER_SECOND} a second", unprepared[DAEMON], unprepared[PEER]),
    ]


async def _prepare(node: _Watched, caller: Claims, count: int) -> tuple[list[float], list[float]]:
    """Make claims, each with a device that no other has at the time; prepare and unprepare them."""
    names = [name for its in node.devices.values() for name in its]
    uids = []
    for number in range(count):
        result = {
            "request": "device",
            "driver": DRIVER,
            "pool": f"{NODE}/{_NAME}",
            "device": names[number % len(names)],
        }
        uid = str(uuid4())
        made = await node.api.create(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"claim-{uid}"},
                "spec": {},
                "status": {"allocation": {"devices": {"results": [result]}}},
            },
        )
        uids.append((made["metadata"]["name"], made["metadata"]["uid"]))
    return await caller.prepare(uids)


async def _at_rest(bench: Bench, host: Nodes, *, seconds: float) -> list[Result]:
    """Look at a daemon with DRA beside one without."""
    rounds = 1 if bench.quick else 2
    bench.say(f"memory and CPU time with DRA and without, {rounds} rounds")
    more, idle = list[float](), dict[str, list[float]](dra=[], devicePlugin=[])
    globs = {_NAME: _GLOBS[_FEW]}
    for _ in range(rounds):
        async with (
            _serving(bench, host, _FEW) as node,
            bench.registered(DAEMON, globs, root=host.root) as plugin,
        ):
            await asyncio.sleep(_SETTLE_SECONDS)
            pids = {"dra": node.process.pid, "devicePlugin": plugin.process.pid}
            before = {by: cpu_seconds(pid) for by, pid in pids.items()}
            await asyncio.sleep(seconds)
            for by, pid in pids.items():
                idle[by].append((cpu_seconds(pid) - before[by]) / seconds * 100)
            more.append(resident_memory(pids["dra"]) - resident_memory(pids["devicePlugin"]))
    return [
        Result(what="more memory with DRA", unit="MB", daemon=more, goal=_MEMORY_GOAL),
        *(
            Result(what=f"idle CPU, servedBy: {by}", unit="%", daemon=shares)
            for by, shares in idle.items()
        ),
    ]


@asynccontextmanager
async def _serving(bench: Bench, host: Nodes, count: int) -> AsyncIterator[_Watched]:
    """Run the daemon, with a cluster of its own, until all devices are in ResourceSlices."""
    with bench.folder() as folder:
        (folder / "cdi").mkdir()
        (folder / "device-plugins").mkdir()
        config = folder / "config.yaml"
        globs = {_NAME: _GLOBS[count]}
        config.write_text(f"{config_text(globs)}    servedBy: dra\n", encoding="utf-8")
        # Else pods that hold its devices otherwise are asked about first.
        state = folder / f"kubelet/plugins/{DRIVER}"
        state.mkdir(mode=0o700, parents=True)
        (state / "served.json").write_text(json.dumps({"resources": [_NAME]}), encoding="utf-8")
        options = (
            f"--kubelet-root={folder / 'kubelet'}",
            f"--kubeconfig={folder / 'kubeconfig'}",
            f"--node-name={NODE}",
            f"--cdi-dir={folder / 'cdi'}",
        )
        async with helper("bench.cluster", folder) as cluster:
            await cluster.stdout.readline()
            async with (
                bench.process(
                    DAEMON, globs, folder / "device-plugins", host.root, config, options
                ) as (process, _),
                ApiClient(partial(of_kubeconfig, folder / "kubeconfig")) as api,
                api.watch(SLICES, resource_version="") as events,
            ):
                node = _Watched(
                    cluster=cluster,
                    api=api,
                    process=process,
                    socket=state / "dra.sock",
                    events=events,
                )
                await node.until(count)
                await asyncio.sleep(_SETTLE_SECONDS)
                yield node
