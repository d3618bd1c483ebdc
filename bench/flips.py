"""From a probe's result to the new list at the kubelet, with ten thousand devices."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.ear import ear
from bench.nodes import FOLDER, nodes
from bench.quantiles import quantiles
from genericdp.devices.device import FileRead
from genericdp.health.health import Health
from genericdp.health.hooks import HookRunner
from genericdp.host.root import Root
from genericdp.kubelet.folder import KubeletFolder
from genericdp.kubelet.messages import NO_DEVICES
from genericdp.kubelet.registration import register
from genericdp.kubelet.server import listening
from genericdp.kubelet.servicer import Servicer
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.model import FileCheck, PathSelector, Place, Probe, Resource, Selector
from genericdp.process.run import Commands
from genericdp.supervisor import Supervisor
from genericdp.template import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from bench.ear import Ear
    from bench.lines import Line
    from bench.nodes import Nodes
    from bench.sides import Bench
    from genericdp.health.kinds import Run, RunProbes
    from genericdp.process.outcome import Outcome

_MANY = 10_000
_NAME = "bench.example.com/thing"
_PERIOD_SECONDS = 6
"""40 batches in it: 150 ms apart, so that each change goes out alone."""
_GOAL = 1500.0
_STATES = "states"
"""The folder, beside the nodes, of the files that the probes read."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Let the state of one device after the other change; everything is real but the clock."""
    flips = 30 if bench.quick else 100
    logging.getLogger("genericdp").addHandler(logging.NullHandler())  # not each flip on stderr
    bench.progress.say(f"one of {_MANY} devices falls or recovers by its probe, {flips} times")
    with nodes(_MANY, bench.scratch) as host:
        states = host.folder / _STATES
        states.mkdir()
        for number in range(_MANY):
            (states / f"thing-{number}").write_text("1")
        # Half of the floor's before, half after: what else goes on here meets both.
        floor = await _floor(bench, flips // 2)
        took = await _flips(bench, host, flips)
        floor += await _floor(bench, flips // 2)
    note = "from the results of a batch of probes with files to the bytes in another process"
    what = f"one of {_MANY} devices flips to list"
    for line in quantiles(what, [took], [floor], goals={"p50": _GOAL, "p99": _GOAL}, note=note):
        yield line


@dataclass(slots=True)
class _Flipper:
    """Changes what the first device of each batch will read, once asked."""

    states: Path
    wanted: bool = False
    result: asyncio.Queue[float] = field(default_factory=asyncio.Queue)
    """When the results of the next batch with a change were there."""

    def health(self, root: Root, *, run_probes: RunProbes, **settings: Any) -> Health:
        """Make what runs the probes."""
        return Health(root, run_probes=partial(self._run_probes, run_probes), **settings)

    async def _run_probes(
        self, run_probes: RunProbes, runs: Sequence[Run], resource: str, root: Root
    ) -> Sequence[Outcome]:
        wanted, self.wanted = self.wanted, False
        check = runs[0][0].check
        if wanted and isinstance(check, FileRead):
            file = self.states / check.path.rpartition("/")[2]
            file.write_text("0" if file.read_text() == "1" else "1")
        outcomes = await run_probes(runs, resource, root)
        if wanted:
            self.result.put_nowait(time.monotonic())
        return outcomes


async def _flips(bench: Bench, host: Nodes, flips: int) -> list[float]:
    flipper = _Flipper(states=host.folder / _STATES)
    took = []
    async with _heard(bench) as (folder, heard), asyncio.TaskGroup() as tasks:
        supervisor = Supervisor(
            root=Root(host.root),
            node_name="bench",
            kubelet=KubeletFolder(folder),
            commands=Commands(),
            health=flipper.health,
        )
        running = tasks.create_task(supervisor.run())
        supervisor.resources.value = (_probed(),)
        await heard.next_list()
        await asyncio.sleep(_PERIOD_SECONDS)  # until the second runs are spread
        for _ in range(flips):
            flipper.wanted = True
            begun = await flipper.result.get()
            took.append(((await heard.next_list()).at - begun) * 1000)
        running.cancel()
    return took


def _probed() -> Resource:
    check = FileCheck(path=parse(f"/dev/{FOLDER}/{_STATES}/$(device.name)"), equals=parse("1"))
    probe = Probe(check=check, period_seconds=_PERIOD_SECONDS, failure_threshold=1)
    things = Selector(candidates=PathSelector(globs=(f"/dev/{FOLDER}/thing-*",)))
    place = Place(file="bench.yaml", line=1, column=1)
    return Resource(name=_NAME, place=place, match=(things,), health=(probe,))


async def _floor(bench: Bench, flips: int) -> list[float]:
    """Encode one device, join all, send: without any of what has to be known for that."""
    hooks = HookRunner(Commands().run)
    service = Servicer(_NAME, root=Root(bench.scratch), look_again=lambda: None, hooks=hooks)
    entries = {f"thing-{i}": _listed(f"thing-{i}", "Healthy") for i in range(_MANY)}
    took = []
    async with _heard(bench) as (folder, heard):
        path = folder / "floor.sock"
        async with listening(path, service):
            await register(
                folder,
                endpoint=path.name,
                resource=_NAME,
                options=service.options,
                timeout_seconds=10,
            )
            await heard.next_list()
            for flip in range(flips):
                await asyncio.sleep(0.05)
                begun = time.monotonic()
                name = f"thing-{flip // 2 * 31 % _MANY}"
                entries[name] = _listed(name, "Healthy" if flip % 2 else "Unhealthy")
                service.set_devices(replace(NO_DEVICES, response=b"".join(entries.values())))
                took.append(((await heard.next_list()).at - begun) * 1000)
    return took


def _listed(name: str, health: str) -> bytes:
    devices = [api.Device(ID=name, health=health)]
    return api.ListAndWatchResponse(devices=devices).SerializeToString()


@asynccontextmanager
async def _heard(bench: Bench) -> AsyncIterator[tuple[Path, Ear]]:
    folder = bench.scratch / "ear"
    folder.mkdir()
    try:
        async with ear(folder) as heard:
            yield folder, heard
    finally:
        for left in folder.iterdir():
            left.unlink()
        with suppress(OSError):
            folder.rmdir()
