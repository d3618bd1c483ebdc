"""Measure devices and claims that DRA serves, next to a bare driver or the device plugin.

``python -m bench.dra DIRECTORY`` is an API server and the DRA side of a kubelet: it writes
``DIRECTORY/kubeconfig`` and serves ``DIRECTORY/kubelet``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from bench import nodes
from bench.calls import PER_SECOND, preparing
from bench.processes import helper, resident_memory
from bench.results import Result, counted, latencies
from bench.runner import DAEMON, PEER, config_text
from genericdp.apiserver import SLICES, ApiClient, of_kubeconfig
from genericdp.settings import DRIVER
from tests.apiserver.server import ApiServer, make_certificates
from tests.dra.kubelet import DraKubelet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bench.calls import Calls
    from bench.runner import Bench, Samples
    from genericdp.apiserver import Event

NODE = "node-1"
_NAME = "bench.example.com/thing"
_GLOBS = {8: f"{nodes.DIRECTORY}/thing-[0-7]", 1_000: f"{nodes.DIRECTORY}/thing-*"}
"""By the number of devices."""
_PATIENCE_SECONDS = 60.0
_SETTLE_SECONDS = 3.0


@dataclass(kw_only=True)
class _Served:
    """A daemon that serves DRA, and its node, whose ResourceSlices are watched."""

    api: ApiClient
    pid: int
    socket: Path
    events: AsyncIterator[Event]
    devices: dict[str, list[str]] = field(default_factory=dict)
    """Those without a taint, by slice."""
    milliseconds: float = 0.0
    """How long it took from its start until all devices were in slices."""

    async def until(self, count: int) -> None:
        """Wait until slices show this many devices."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while len(self.names) != count:
                    kind, item = await anext(self.events)
                    if kind == "DELETED":
                        del self.devices[item["metadata"]["name"]]
                    elif kind != "BOOKMARK":
                        self.devices[item["metadata"]["name"]] = [
                            device["name"]
                            for device in item["spec"].get("devices", ())
                            if not device.get("taints")
                        ]
        except TimeoutError as error:
            raise RuntimeError(f"{len(self.names)} devices are in slices, not {count}") from error

    @property
    def names(self) -> list[str]:
        """Those of all devices without a taint."""
        return [name for names in self.devices.values() for name in names]


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Start with devices and change some, then prepare claims."""
    turns = 1 if bench.quick else 3
    with nodes.nodes(max(_GLOBS)):
        for count in _GLOBS:
            devices, took = counted(count, "device"), list[float]()
            starts, more = list[float](), list[float]()
            bench.say(f"ResourceSlices of {devices}, {turns} turns")
            for _ in range(turns):
                async with bench.registered(DAEMON, {_NAME: _GLOBS[count]}) as plugin:
                    await asyncio.sleep(_SETTLE_SECONDS)
                    without = resident_memory(plugin.pid)
                async with _serving(bench, count) as node:
                    starts.append(node.milliseconds)
                    more.append(resident_memory(node.pid) - without)
                    for number in range(4, 8):
                        for change, left in ((nodes.remove, count - 1), (nodes.make, count)):
                            await asyncio.sleep(0.5)
                            took.append(await _to_slice(node, change, number, left))
            yield Result(what=f"start, in slices, {devices}", unit="ms", daemon=starts, goal=2_000)
            yield Result(what=f"memory for DRA, {devices}", unit="MB", daemon=more, goal=20)
            yield Result(what=f"change, in a slice, {devices}", unit="ms", daemon=took, goal=150)
        for result in await _claims(bench, seconds=3 if bench.quick else 10, turns=turns):
            yield result


async def _to_slice(node: _Served, change: Callable[[int], None], number: int, left: int) -> float:
    since = time.monotonic()
    await asyncio.to_thread(change, number)
    await node.until(left)
    return (time.monotonic() - since) * 1000


async def _claims(bench: Bench, *, seconds: int, turns: int) -> list[Result]:
    """Have claims prepared by the daemon and by a bare driver in turns; the first warms up."""
    bench.say(f"claims, {PER_SECOND} a second, {turns} turns of {seconds} s")
    prepared: Samples = {DAEMON: [], PEER: []}
    unprepared: Samples = {DAEMON: [], PEER: []}
    with bench.directory() as directory:
        bare = directory / "bare.sock"
        async with _serving(bench, max(_GLOBS)) as node, helper("bench.bare", bare) as peer:
            await peer.stdout.readline()
            async with preparing(node.socket) as of_daemon, preparing(bare) as of_peer:
                for number in range(turns + 1):
                    for side, caller in ((DAEMON, of_daemon), (PEER, of_peer)):
                        both = await _prepare(node, caller, PER_SECOND * (seconds if number else 2))
                        prepared[side] += both[0] if number else ()
                        unprepared[side] += both[1] if number else ()
    return [
        *latencies(f"Prepare, {PER_SECOND} a second", [*prepared.values()], 4.0),
        *latencies(f"Unprepare, {PER_SECOND} a second", [*unprepared.values()]),
    ]


async def _prepare(node: _Served, caller: Calls, count: int) -> tuple[list[float], list[float]]:
    """Make claims, each with a device that no other has at the time; prepare and unprepare them."""
    names, uids = node.names, []
    for number in range(count):
        result = {
            "request": "device",
            "driver": DRIVER,
            "pool": f"{NODE}/{_NAME}",
            "device": names[number % len(names)],
        }
        made = await node.api.create(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"claim-{uuid4()}"},
                "spec": {},
                "status": {"allocation": {"devices": {"results": [result]}}},
            },
        )
        uids.append((made["metadata"]["name"], made["metadata"]["uid"]))
    return await caller.prepare(uids)


@asynccontextmanager
async def _serving(bench: Bench, count: int) -> AsyncIterator[_Served]:
    """Run the daemon, with a cluster of its own, until all devices are in ResourceSlices."""
    with bench.directory() as directory:
        options = lay_out(directory, _NAME)
        config, globs = directory / "config.yaml", {_NAME: _GLOBS[count]}
        config.write_text(f"{config_text(globs)}    servedBy: dra\n", encoding="utf-8")
        async with helper("bench.dra", directory) as cluster:
            await cluster.stdout.readline()
            async with (
                ApiClient(partial(of_kubeconfig, directory / "kubeconfig")) as api,
                api.watch(SLICES, resource_version="") as events,
                bench.process(DAEMON, globs, directory / "device-plugins", config, options) as (
                    pid,
                    started,
                ),
            ):
                socket = directory / f"kubelet/plugins/{DRIVER}/dra.sock"
                node = _Served(api=api, pid=pid, socket=socket, events=events)
                await node.until(count)
                node.milliseconds = (time.monotonic() - started) * 1000
                await asyncio.sleep(_SETTLE_SECONDS)
                yield node


def lay_out(directory: Path, resource: str) -> list[str]:
    """Make the directories of a daemon that has served a resource by DRA; return its options."""
    state = directory / f"kubelet/plugins/{DRIVER}"
    for made in (directory / "cdi", directory / "device-plugins", state / "claims"):
        made.mkdir(parents=True)
    state.chmod(0o700)
    # Else pods that hold its devices otherwise are asked about first.
    (state / "served.json").write_text(json.dumps({"resources": [resource]}), encoding="utf-8")
    return [
        f"--kubelet-root={directory}/kubelet",
        f"--kubeconfig={directory}/kubeconfig",
        f"--node-name={NODE}",
        f"--cdi-dir={directory}/cdi",
    ]


async def _cluster(directory: Path) -> None:
    async with (
        ApiServer(certificates=make_certificates(directory)) as server,
        DraKubelet(directory / "kubelet", wipe=lambda name: server.wipe(NODE, driver=name)),
    ):
        server.add_node(NODE)
        server.kubeconfig(directory / "kubeconfig")
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_cluster(Path(sys.argv[1])))
