"""The simulated kubelet as a node of the scenarios, with the daemon in this process."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.kubelet.podresources import PodResourcesTiming, list_pods, pods_in
from genericdp.observed import until
from genericdp.simulator.pods import Container
from genericdp.simulator.pods import Pod as KubeletsPod
from genericdp.simulator.settings import Generation

from tests.e2e.cluster.listing import CHECKPOINT
from tests.e2e.scenarios import ALL_FUSE, FUSE, LOOP, START, Calls, Given, holders_in
from tests.world import FAST, PATIENCE_SECONDS, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path
    from typing import Any

    from tests.world import Daemon

_TIMING = replace(FAST, same_age=0.01)
"""Instances follow each other within a second here, and are not taken for equally old."""
_PROMPT = PodResourcesTiming(period=0.05, refresh=0.1, pods_known=0.1)


class SimulatedPod:
    """A pod of the simulated kubelet."""

    held: frozenset[tuple[str, str]]

    def __init__(self, node: SimulatedNode, pod: KubeletsPod) -> None:
        self._node = node
        self._pod = pod
        self.name = pod.uid

    async def given(self) -> Given:
        (container,) = self._pod.containers
        edits = (await self._node.world.kubelet.start_container(self._pod, container)).given
        assert edits is not None
        nodes = {
            device.container_path: f"{device.host_path} {device.permissions}"
            for device in edits.devices
        }
        return Given(nodes, edits.env, edits.annotations)

    async def check(self) -> None:
        assert await self._node.held(self._pod.uid) == self.held
        await self.given()

    async def end(self) -> None:
        self._node.world.kubelet.admitter.remove(self._pod)


class SimulatedNode:
    """A World; it has what the daemon needs of a real node."""

    storm = 20

    def __init__(self, directory: Path, generation: str) -> None:
        self.generation = generation
        self._pod_resources = directory / "pod-resources/kubelet.sock"
        self.world = World(
            directory, generation=Generation(generation), pod_resources=self._pod_resources
        )
        self.directory = self.world.kubelet.directory
        self.world.host.plug("fuse", major=10, minor=229)
        self._config = START
        self._settings: dict[str, Any] = {}
        self._pods = 0
        self._former: Counter[str] = Counter()
        """Registrations with earlier kubelets."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SimulatedNode]:
        """Run the kubelet and the daemon."""
        async with self.world.kubelet:
            await self._start()
            await self.daemon.registered(FUSE)
            await self.daemon.registered(LOOP)
            await self.has(FUSE, *ALL_FUSE)
            try:
                yield self
            finally:
                await self._stop()

    async def _start(self) -> None:
        started, self._end = asyncio.Event(), asyncio.Event()
        end = self._end

        async def serve() -> None:
            async with self.world.serving(self._config, timing=_TIMING, **self._settings) as daemon:
                self.daemon: Daemon = daemon
                started.set()
                await end.wait()

        # It outlives anyone who starts it.
        self._task = asyncio.get_running_loop().create_task(serve())
        await started.wait()

    async def _stop(self) -> None:
        self._end.set()
        await self._task

    async def plug(self, *numbers: int) -> None:
        for number in numbers:
            self.world.host.plug(f"loop{number}", major=7)

    async def unplug(self, *numbers: int) -> None:
        for number in numbers:
            self.world.host.unplug(f"loop{number}")

    async def edit(self, config: str) -> None:
        self._config = config
        await self.daemon.takes(config)

    async def has(self, resource: str, *devices: str) -> None:
        await self.world.listed(resource, *devices)

    async def counts(self, resource: str, total: int, healthy: int) -> None:
        kubelet = self.world.kubelet
        await kubelet.wait_for(
            lambda: (kubelet.capacity(resource), kubelet.allocatable(resource)) == (total, healthy)
        )

    async def calls(self, resource: str) -> Calls:
        observed = self.world.kubelet.observed
        since = observed.registrations[resource] - self._former[resource]
        return Calls(since, observed.lists[resource])

    async def pod(self, limits: Mapping[str, int]) -> SimulatedPod:
        kubelet = self.world.kubelet
        pod = self._new_pod(limits)
        admission = await kubelet.admit(pod)
        assert admission.admitted, admission.message
        made = SimulatedPod(self, pod)
        made.held = await self.held(pod.uid)
        return made

    async def refusal(self, limits: Mapping[str, int]) -> str:
        admission = await self.world.kubelet.admit(self._new_pod(limits))
        assert not admission.admitted
        return f"{admission.reason}: {admission.message}"

    def _new_pod(self, limits: Mapping[str, int]) -> KubeletsPod:
        self._pods += 1
        container = Container(name="main", limits=limits)
        return KubeletsPod(uid=f"pod-{self._pods}", containers=(container,))

    async def held(self, pod: str) -> frozenset[tuple[str, str]]:
        """Return resource and ID of what a pod has."""
        answer = await list_pods(self._pod_resources, timeout_seconds=PATIENCE_SECONDS)
        return frozenset(
            device for found in pods_in(answer) if found.name == pod for device in found.devices
        )

    async def restart_daemon(self) -> None:
        await self._stop()
        for resource in (FUSE, LOOP):  # else what follows may be the former lists
            await self.world.listed(resource)
        await self._start()

    kill_daemon = restart_daemon

    async def replace(self, config: str) -> None:
        self._config = config
        await self.restart_daemon()

    async def restart_kubelet(self) -> None:
        await self.world.kubelet.stop()
        await self._start_kubelet()

    async def kill_kubelet(self) -> None:
        await self.world.kubelet.crash()
        await self._start_kubelet()

    async def lose_checkpoint(self) -> None:
        await self.world.kubelet.stop()
        (self.directory / CHECKPOINT.name).unlink()
        await self._start_kubelet()

    async def _start_kubelet(self) -> None:
        self._former = Counter(self.world.kubelet.observed.registrations)
        await self.world.kubelet.start()

    async def remove_directory(self) -> None:
        shutil.rmtree(self.directory)

    async def update(self) -> None:
        kubelet, older, end = self.world.kubelet, self._task, self._end
        before = {name: kubelet.observed.registrations[name] for name in (FUSE, LOOP)}

        def registered(times: int) -> bool:
            return all(
                kubelet.observed.registrations[name] >= before[name] + times for name in before
            )

        await self._start()
        await kubelet.wait_for(lambda: registered(1))
        for name in before:
            await self.daemon.registered(name)
        end.set()
        await older
        if self.generation == "A":
            await kubelet.wait_for(lambda: registered(2))
        for name in before:
            await self.daemon.registered(name)

    async def track_pods(self) -> None:
        self._settings = {
            "pod_resources": self._pod_resources,
            "pod_resources_timing": _PROMPT,
            "state_dir": self._pod_resources.parent.with_name("state"),
        }
        await self.restart_daemon()

    async def holders(self) -> dict[str, str]:
        return holders_in(await self.daemon.status())

    async def says(self, text: str) -> None:
        await self.daemon.log.says(text)

    @asynccontextmanager
    async def second(self, config: str) -> AsyncIterator[None]:
        async with self.world.serving(config):
            yield

    @asynccontextmanager
    async def never_without(self, wanted: Mapping[str, tuple[str, ...]]) -> AsyncIterator[None]:
        kubelet = self.world.kubelet

        def lacking() -> bool:
            return any(
                kubelet.devices(name).get(device) != "Healthy"
                for name, devices in wanted.items()
                for device in devices
            )

        looking = asyncio.get_running_loop().create_task(until(lacking, kubelet.changes))
        yield
        assert not looking.done(), f"without some of {wanted}: {kubelet.describe()}"
        looking.cancel()
        await asyncio.wait([looking])
