"""A host in a folder, a kubelet in another, and the daemon's supervisor between them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from genericdp.host.root import Root
from genericdp.inotify import open_inotify
from genericdp.kubelet.folder import KubeletFolder
from genericdp.model import DeviceNodes, EnvVar, Inject, PathSelector, Place, Resource, Selector
from genericdp.observed import until
from genericdp.simulator.pods import Container, Pod
from genericdp.supervisor import Pace, Supervisor
from genericdp.template import parse
from genericdp.timing import Timing
from tests.world import Host as CopiedTree

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from inotify_simple import INotify

    from genericdp.simulator.kubelet import Kubelet
    from genericdp.simulator.pods import Given

PLACE = Place(file="test.yaml", line=1, column=1)
FAST = Timing(register=5.0, stream=5.0, first_retry=0.01, last_retry=0.05)


def resource(
    name: str, *globs: str, replicas: int = 1, forget: int = 300, inject: Inject | None = None
) -> Resource:
    """A resource of path selectors."""
    return Resource(
        name=name,
        place=PLACE,
        match=tuple(Selector(candidates=PathSelector(globs=(one,))) for one in globs),
        replicas=replicas,
        forget_after_seconds=forget,
        inject=inject or Inject(),
    )


def counts(kubelet: Kubelet, name: str) -> tuple[int, int, tuple[str, ...]]:
    """How often it was registered and sent a list, and at which sockets it is."""
    return kubelet.observed.registrations[name], kubelet.observed.lists[name], kubelet.paths(name)


def serial(name: str = "example.com/serial", **keys: int) -> Resource:
    """Serial adapters, several of which fit into one container."""
    return resource(
        name,
        "/dev/ttyUSB*",
        inject=Inject(
            devices=(
                DeviceNodes(
                    path=parse("$(device.path)"),
                    container_path=parse("/dev/serial$(allocation.index)"),
                ),
            ),
            env={"SERIAL": EnvVar(value=parse("$(device.name)"))},
        ),
        **keys,
    )


class Host(CopiedTree):
    """A copied tree, as the supervisor takes it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = Root(folder)


class World:
    """What a test of the plugin needs; the kubelet is not started yet."""

    def __init__(self, folder: Path, kubelet: Kubelet) -> None:
        self.host = Host(folder / "host")
        self.kubelet = kubelet
        self.supervisors: list[Supervisor] = []

    @asynccontextmanager
    async def serving(
        self,
        *resources: Resource,
        timing: Timing = FAST,
        pace: Pace | None = None,
        pod_resources: Path | None = None,
        open_inotify: Callable[[], INotify] = open_inotify,
    ) -> AsyncIterator[Supervisor]:
        """Run the supervisor for these resources."""
        kubelet = KubeletFolder(self.kubelet.folder, poll_seconds=0.2, open_inotify=open_inotify)
        supervisor = Supervisor(
            root=self.host.root,
            node_name="node-1",
            kubelet=kubelet,
            timing=timing,
            pace=pace,
            pod_resources=pod_resources,
            open_inotify=open_inotify,
        )
        supervisor.resources.value = resources
        self.supervisors.append(supervisor)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(supervisor.run())
            yield supervisor
            running.cancel()

    async def listed(self, name: str, *healthy: str) -> None:
        """Wait until the kubelet's healthy devices are exactly these."""

        def as_wanted() -> bool:
            devices = self.kubelet.devices(name)
            return {one for one, health in devices.items() if health == "Healthy"} == set(healthy)

        await self.kubelet.wait_for(as_wanted)

    async def active(self, supervisor: Supervisor, name: str) -> None:
        """Wait until the plugin knows that it is registered."""
        await self.listed_once(name)
        plugin = supervisor.plugins[name]
        assert await until(lambda: plugin.active.value, plugin.active, timeout_seconds=5)

    async def listed_once(self, name: str) -> None:
        """Wait until the kubelet has a list."""
        await self.kubelet.wait_for(lambda: self.kubelet.observed.lists[name])

    async def container(self, uid: str = "pod", **amounts: int) -> Given:
        """Admit a pod for example.com/KEY=N and give what its container gets."""
        limits = {f"example.com/{name}": count for name, count in amounts.items()}
        container = Container(name="main", limits=limits)
        pod = Pod(uid=uid, containers=(container,))
        admission = await self.kubelet.admit(pod)
        assert admission.admitted, admission.message
        given = (await self.kubelet.start_container(pod, container)).given
        assert given is not None
        return given

    async def refusal(self, uid: str = "pod", **amounts: int) -> str:
        """Admit a pod that must be refused and give the message."""
        limits = {f"example.com/{name}": count for name, count in amounts.items()}
        pod = Pod(uid=uid, containers=(Container(name="main", limits=limits),))
        admission = await self.kubelet.admit(pod)
        assert not admission.admitted
        return admission.message
