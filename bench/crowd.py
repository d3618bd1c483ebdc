"""A hundred thousand devices in one process: ``python -m bench.crowd``, about seven minutes.

500 resources of 200 devices each, beside the simulated kubelet. What the memory is compared with is
the same daemon with one device for each resource.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.crowdhost import crowd, wrong
from bench.flags import between
from bench.lines import Line, percentile, table
from bench.nodes import may_make_nodes
from bench.processes import cpu_seconds, descriptors, memory, peak_memory, threads
from bench.pulse import pulse
from bench.reloads import Volume
from bench.sides import DAEMON, Bench, Progress, config_text, scratch_folder
from genericdp.kubelet.registration import channel
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import grpc

    from bench.crowdhost import Crowd
    from bench.processes import Memory
    from bench.pulse import Pulse
    from bench.sides import Plugin
    from genericdp.simulator.kubelet import Kubelet

_SETTLE_SECONDS = 3.0
_STILL_SECONDS = 1.5
"""After a change, for messages that ought not to come."""
_DOWN_SECONDS = 0.7
_FULL_LOOK_SECONDS = 100.0
"""Within this time there is one: each 30 s, or after 20 times as long as one takes."""


@dataclass(kw_only=True, slots=True)
class _Crowded:
    """One daemon, and what is measured of it, in this order."""

    bench: Bench
    crowd: Crowd
    kubelet: Kubelet
    pulse: Pulse
    volume: Volume
    lines: list[Line] = field(default_factory=list)

    def add(self, what: str, unit: str, *samples: float, note: str = "") -> None:
        self.lines.append(Line(what=what, unit=unit, daemon=samples, note=note))

    def check(self, when: str) -> None:
        """Raise RuntimeError unless the kubelet has what it must have."""
        listed = {name: self.kubelet.devices(name) for name in self.crowd.globs}
        if problems := wrong(listed, self.crowd):
            raise RuntimeError(f"{when}: {'; '.join(problems[:5])} ({len(problems)} in all)")

    @asynccontextmanager
    async def answering(self, what: str) -> AsyncIterator[None]:
        """See how long the slowest answer takes meanwhile."""
        self.bench.progress.say(what)
        await self.pulse.begin()
        yield
        self.add(f"slowest answer: {what}", "ms", await self.pulse.end())

    async def run(self, alone: Memory) -> None:
        """Start the daemon, do to it all that there is, and stop it."""
        self.volume.swap(config_text(self.crowd.globs))
        await self.pulse.begin()
        self.bench.progress.say("start")
        async with self.bench.registered(
            DAEMON,
            self.kubelet,
            self.crowd.globs,
            root=self.crowd.root,
            config=self.volume.folder,
        ) as plugin:
            self.add("exec to all listed", "s", await plugin.listed(plugin.started))
            self.add("CPU until then", "s", cpu_seconds(plugin.pid))
            self.add("slowest answer: start", "ms", await self.pulse.end())
            self.check("after the start")
            await self._at_rest(plugin, alone)
            await self._allocate(plugin)
            await self._events()
            await self._reloads()
            await self._idle(plugin)
            await self._restart(plugin)
            now = memory(plugin.pid)
            self.add("resident memory at the end", "MB", now.resident, note=str(now))
            self.add("peak of it", "MB", peak_memory(plugin.pid))
            since = time.monotonic()
            plugin.process.terminate()
            code = await plugin.process.wait()
            self.add("SIGTERM to its end", "s", time.monotonic() - since)
            if code != 0:
                raise RuntimeError(f"it ended with {code}")

    async def _at_rest(self, plugin: Plugin, alone: Memory) -> None:
        await asyncio.sleep(_SETTLE_SECONDS)
        now = memory(plugin.pid)
        devices = self.crowd.resources * (self.crowd.devices - 1)
        self.add("resident memory", "MB", now.resident, note=str(now))
        self.add("private memory", "MB", now.own, note=f"with one device each: {alone}")
        self.add("of each further device", "bytes", (now.own - alone.own) * 1e6 / devices)
        self.add("peak until then", "MB", peak_memory(plugin.pid))
        self.add("threads", "", threads(plugin.pid))
        self.add("descriptors", "", descriptors(plugin.pid))

    async def _allocate(self, plugin: Plugin) -> None:
        """Allocate each device of one resource; raises RuntimeError if another node is given."""
        resource, took = self.crowd.resources // 2, []
        (path,) = plugin.kubelet.paths(self.crowd.name(resource))
        self.bench.progress.say("each device of one resource is allocated")
        async with channel(Path(path)) as plugins:
            await plugins.channel_ready()
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = plugins.unary_unary(
                "/v1beta1.DevicePlugin/Allocate"
            )
            for device in [*range(self.crowd.devices)] * (1 if self.bench.quick else 5):
                ids = [self.crowd.device_id(resource, device)]
                one = api.ContainerAllocateRequest(devices_ids=ids)
                request = api.AllocateRequest(container_requests=[one]).SerializeToString()
                begun = time.perf_counter()
                answer = await call(request, timeout=10)
                took.append((time.perf_counter() - begun) * 1000)
                (given,) = api.AllocateResponse.FromString(answer).container_responses
                paths = [one.host_path for one in given.devices]
                if paths != [self.crowd.path(resource, device)]:
                    raise RuntimeError(f"{paths} for {ids}")
        self.add("Allocate, p50", "ms", percentile(took, 0.5))
        self.add("Allocate, p99", "ms", percentile(took, 0.99))

    async def _events(self) -> None:
        gone, back = [], []
        async with self.answering("one node vanishes and returns, again and again"):
            for number in range(3 if self.bench.quick else 8):
                resource = number * 97 % self.crowd.resources
                gone.append(await self._event(resource, self.crowd.remove, "Unhealthy"))
                back.append(await self._event(resource, self.crowd.make, "Healthy"))
        self.add("one node vanishes, to its list", "ms", *gone)
        self.add("one node returns, to its list", "ms", *back)
        self.check("after the events")

    async def _event(self, resource: int, change: Callable[[int, int], None], health: str) -> float:
        name, device = self.crowd.name(resource), self.crowd.device_id(resource, 0)

        def heard() -> bool:
            return self.kubelet.devices(name)[device] == health

        lists, since = self._lists(), time.monotonic()
        change(resource, 0)
        await self.kubelet.wait_for(heard, 60)
        took = (self.kubelet.observed.history[-1].at - since) * 1000
        await asyncio.sleep(_STILL_SECONDS)
        if (sent := self._lists() - lists) != 1:
            raise RuntimeError(f"{sent} lists were sent of one device")
        return took

    def _lists(self) -> int:
        return sum(self.kubelet.observed.lists.values())

    async def _reloads(self) -> None:
        changed = self.crowd.name(self.crowd.resources - 1)
        new = self.crowd.name(self.crowd.resources)
        text, many = config_text(self.crowd.globs), self.crowd.devices
        more = config_text({**self.crowd.globs, new: self.crowd.glob(self.crowd.resources)})
        async with self.answering("reloads of which each changes one resource"):
            there = await self._reload(f"{text}    replicas: 2\n", changed, 2 * many)
            and_back = await self._reload(text, changed, many)
        async with self.answering("a reload that adds a resource"):
            added = await self._reload(more, new, 1)
        self.add("a reload that changes a resource, to its list", "s", there, and_back)
        self.add("a reload that adds a resource, to its list", "s", added)
        self.check("after the reloads")

    async def _reload(self, text: str, resource: str, devices: int) -> float:
        lists, since = self._lists(), time.monotonic()
        self.volume.swap(text)
        await self.kubelet.wait_for(lambda: len(self.kubelet.devices(resource)) == devices, 60)
        took = self.kubelet.observed.history[-1].at - since
        await asyncio.sleep(2 * _STILL_SECONDS)
        if (sent := self._lists() - lists) != 1:
            raise RuntimeError(f"{sent} lists were sent after a reload that changes one")
        return took

    async def _idle(self, plugin: Plugin) -> None:
        seconds = 40.0 if self.bench.quick else 120.0
        self.bench.progress.say(f"idle for {seconds:.0f} s")
        before = cpu_seconds(plugin.pid)
        await asyncio.sleep(seconds)
        used = (cpu_seconds(plugin.pid) - before) / seconds * 100
        self.add(f"idle CPU over {seconds:.0f} s", "% of a core", used)
        async with self.answering("a full look"):
            await asyncio.sleep(_FULL_LOOK_SECONDS)

    async def _restart(self, plugin: Plugin) -> None:
        async with self.answering("the kubelet restarts"):
            await self.kubelet.stop()
            await asyncio.sleep(_DOWN_SECONDS)
            since, before = time.monotonic(), cpu_seconds(plugin.pid)
            await self.kubelet.start()
            took = await plugin.listed(since)
            used = cpu_seconds(plugin.pid) - before
        self.add("the kubelet starts again, to all listed", "s", took)
        self.add("CPU until all are listed again", "s", used)
        self.check("after the restart")


async def measure(bench: Bench, made: Crowd) -> list[Line]:
    """Measure everything, with nodes that are there; raises RuntimeError for what is wrong."""
    single = {made.name(one): made.path(one, 0) for one in range(made.resources)}
    bench.progress.say("one device for each resource")
    async with (
        bench.kubelet() as kubelet,
        bench.registered(DAEMON, kubelet, single, root=made.root) as plugin,
    ):
        await asyncio.sleep(_SETTLE_SECONDS)
        alone = memory(plugin.pid)
    async with bench.kubelet() as kubelet, pulse(kubelet.folder) as calling:
        volume = Volume(bench.scratch / "volume")
        crowded = _Crowded(bench=bench, crowd=made, kubelet=kubelet, pulse=calling, volume=volume)
        await crowded.run(alone)
    return crowded.lines


def main() -> int:
    """Make the nodes, measure, remove them."""
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about four minutes")
    parser.add_argument("--resources", type=between(1, 2000, int), default=500)
    parser.add_argument(
        "--devices", type=between(1, 10_000, int), default=200, help="of each resource"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the nodes are removed
    real = os.geteuid() == 0 and may_make_nodes()
    with scratch_folder() as scratch:
        bench = Bench(scratch=Path(scratch), quick=given.quick, progress=Progress())
        bench.progress.say(f"{given.resources} folders of {given.devices} devices")
        with crowd(given.resources, given.devices, bench.scratch, real=real) as made:
            lines = asyncio.run(measure(bench, made))
    if given.output == "json":
        print(json.dumps({"lines": [line.as_json() for line in lines]}))
    else:
        print(f"load {os.getloadavg()[0]:.1f}, {made.resources} x {made.devices}, {made.kind}")
        print(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
