"""The scenarios in a cluster, with the daemon as kustomize installs it."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from genericdp import __version__

from tests.cluster import shipped
from tests.cluster.daemonset import NAMESPACE
from tests.cluster.dra.pods import Pod, apply, container, delete, pod
from tests.e2e.cluster import loop
from tests.e2e.cluster.counted import Counted
from tests.e2e.cluster.waiting import eventually
from tests.e2e.real import OnKubelet, await_age, held
from tests.e2e.scenarios import LOOP, START, OfNodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet
    from tests.cluster.dra.pods import Manifest
    from tests.e2e.scenarios import Given

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]


class ClusterPod:
    """A pod that the scheduler has found a node for."""

    def __init__(self, node: ClusterNode, name: str) -> None:
        self._node = node
        self.name = name
        self._pod = Pod(node.cluster, name)
        self._pod.await_running()
        self._containers = self._pod.containers()
        self.held = held(node.resources, name)

    async def given(self) -> Given:
        raise NotImplementedError

    async def check(self) -> None:
        assert self._pod.await_running()
        assert self._pod.containers() == self._containers
        # A kubelet learns of its pods a while after it has started.
        eventually(
            lambda: held(self._node.resources, self.name), self.held.__eq__, what="what it has"
        )

    async def end(self) -> None:
        self._pod.delete()
        self._pod.await_gone()


class ClusterNode(OnKubelet):
    """The only node of a cluster: what it has is what its Node object shows."""

    def __init__(self, cluster: Cluster, installed: DaemonSet) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self._installed = installed
        self._config = START
        self._tag = __version__
        self._made: list[Manifest] = []

    def clean_up(self) -> None:
        """Leave what the tests begin with."""
        delete(self.cluster, *self._made)
        loop.remove_all()
        shipped.kustomize(self.cluster, START)
        self._installed.await_rolled_out()
        self.cluster.await_allocatable(LOOP, 0)

    async def has(self, resource: str, *devices: str) -> None:
        await super().has(resource, *devices)
        self.cluster.await_allocatable(resource, len(devices))

    async def edit(self, config: str) -> None:
        """Edit the ConfigMap: that is a reload and no rollout."""
        before = self._installed.await_ready()
        digest, self._config = self._digest(before), config
        shipped.edit(self.cluster, config)
        eventually(lambda: self._digest(before) != digest, what="the edit is active")
        now = self._installed.await_ready()
        assert (now.uid, now.restarts) == (before.uid, before.restarts)

    @staticmethod
    def _digest(daemon: DaemonPod) -> str:
        return str(daemon.status()["config"]["digest"])

    async def pod(self, limits: Mapping[str, int]) -> ClusterPod:
        return ClusterPod(self, self._apply(limits))

    async def refusal(self, limits: Mapping[str, int]) -> str:
        name = self._apply(limits)
        said = Pod(self.cluster, name).await_pending("Insufficient")
        delete(self.cluster, self._made[-1])  # it would be the next to get a device
        return said

    def _apply(self, limits: Mapping[str, int]) -> str:
        name = f"pod-{len(self._made)}"
        self._made.append(pod(name, container(limits=limits)))
        apply(self.cluster, self._made[-1])
        return name

    async def restart_daemon(self) -> None:
        name = self._installed.await_ready().name
        self.cluster.kubectl("-n", NAMESPACE, "delete", "pod", name)
        self._installed.await_ready()

    async def kill_daemon(self) -> None:
        before = self._installed.await_ready()
        os.kill(self._installed.process_id(before), signal.SIGKILL)
        eventually(
            self._installed.pods,
            lambda pods: (
                [(each_pod.restarts, each_pod.ready) for each_pod in pods]
                == [(before.restarts + 1, True)]
            ),
            what="the container has started again",
        )

    async def restart_kubelet(self) -> None:
        await super().restart_kubelet()
        self._await_both()

    async def kill_kubelet(self) -> None:
        await super().kill_kubelet()
        self._await_both()

    def _await_both(self) -> None:
        self.cluster.await_ready()
        self._installed.await_ready()

    async def update(self) -> None:
        self._tag = shipped.OTHER_TAG
        before = self._installed.await_ready()
        await_age()
        shipped.kustomize(self.cluster, self._config, tag=self._tag)
        assert self._installed.await_rolled_out().uid != before.uid

    @asynccontextmanager
    async def never_without(self, wanted: Mapping[str, tuple[str, ...]]) -> AsyncIterator[None]:
        counted = Counted(lambda: tuple(map(self.cluster.allocatable, wanted)))
        async with super().never_without(wanted):
            with counted:
                yield
        assert counted.values == {tuple(map(len, wanted.values()))}


@pytest.fixture
def scene(cluster: Cluster, installed: DaemonSet, daemon: DaemonPod) -> Iterator[ClusterNode]:
    cluster.await_allocatable(LOOP, 0)
    node = ClusterNode(cluster, installed)
    yield node
    node.clean_up()


class TestCluster(OfNodes):
    """Scenarios that need no kubelet for themselves."""
