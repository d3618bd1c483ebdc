"""A real kubelet and the simulated one behind the same questions."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from genericdp.simulator.settings import Generation
from tests.e2e.cluster.versions import KUBELETS
from tests.e2e.cluster.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from genericdp.devices.device import ContainerEdits
    from tests.e2e.bench import Bench

_DEFAULT_ACCESS = "rwm"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gift:
    """What a container has because it asked for devices."""

    nodes: Mapping[str, str]
    """Path in the container → ``b 7:60 r``: kind, numbers, permissions."""
    mounts: Mapping[str, tuple[str, bool]]
    """Path in the container → path on the host, and whether it is read-only."""
    env: Mapping[str, str]
    annotations: Mapping[str, str]


class Side(AbstractContextManager["Side"], Protocol):
    """One of the two; the daemon is connected to it."""

    def listed(self, resource: str, count: int) -> frozenset[str]:
        """Wait until so many devices are healthy; give their ids."""

    def give(self, limits: Mapping[str, int]) -> Gift:
        """Run a pod until the end."""

    def refuse(self, limits: Mapping[str, int]) -> str:
        """Give the words with which such a pod is refused."""

    def crash_and_start(self) -> None:
        """Kill the kubelet and start it."""


class RealSide(Side):
    """The node of the test."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def __exit__(self, *_: object) -> None:
        """The test's fixture ends it."""

    def listed(self, resource: str, count: int) -> frozenset[str]:
        return self._bench.await_count(resource, count)

    def give(self, limits: Mapping[str, int]) -> Gift:
        without = self._bench.pod("without").container().spec()
        return _difference(self._bench.pod("given", limits).container().spec(), without)

    def refuse(self, limits: Mapping[str, int]) -> str:
        # The kubelet puts these words before what admission said, for the pod's status alone.
        return self._bench.pod("refused", limits).refusal().replace("Pod was rejected: ", "")

    def crash_and_start(self) -> None:
        self._bench.node.kill_kubelet()
        self._bench.node.start_kubelet()


class SimulatedSide(Side):
    """The simulator; its loop runs only while it is asked something."""

    def __init__(self, folder: Path, version: str) -> None:
        self._kubelet = Kubelet(folder, generation=Generation(KUBELETS[version]))
        self._ends = ExitStack()
        self._pods = 0

    def __enter__(self) -> Side:
        self._runner = self._ends.enter_context(asyncio.Runner())
        self._runner.run(self._kubelet.start())
        self._ends.callback(lambda: self._runner.run(self._kubelet.stop()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends.__exit__(kind, error, traceback)

    def listed(self, resource: str, count: int) -> frozenset[str]:
        def healthy() -> frozenset[str]:
            devices = self._kubelet.devices(resource).items()
            return frozenset(device for device, health in devices if health == "Healthy")

        wait = self._kubelet.wait_for(lambda: len(healthy()) == count, PATIENCE_SECONDS)
        self._runner.run(wait)
        assert self._kubelet.allocatable(resource) == count
        return healthy()

    def give(self, limits: Mapping[str, int]) -> Gift:
        pod = self._pod(limits)
        admission = self._runner.run(self._kubelet.admit(pod))
        assert admission.admitted, admission
        start = self._runner.run(self._kubelet.start_container(pod, pod.containers[0]))
        assert start.given is not None, start
        return _of_edits(start.given)

    def refuse(self, limits: Mapping[str, int]) -> str:
        admission = self._runner.run(self._kubelet.admit(self._pod(limits)))
        assert not admission.admitted
        return f"{admission.reason}: {admission.message}"

    def crash_and_start(self) -> None:
        self._runner.run(self._kubelet.crash())
        self._runner.run(self._kubelet.start())

    def _pod(self, limits: Mapping[str, int]) -> Pod:
        self._pods += 1
        container = Container(name="look", limits=limits)
        return Pod(uid=f"pod-{self._pods}", containers=(container,))


def _of_edits(edits: ContainerEdits) -> Gift:
    """Look at the host's nodes, as the runtime does."""

    def node(host_path: str, permissions: str) -> str:
        status = Path(host_path).stat()
        kind = "b" if stat.S_ISBLK(status.st_mode) else "c"
        numbers = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        return f"{kind} {numbers} {permissions}"

    return Gift(
        nodes={one.container_path: node(one.host_path, one.permissions) for one in edits.devices},
        mounts={one.container_path: (one.host_path, one.read_only) for one in edits.mounts},
        env=edits.env,
        annotations=edits.annotations,
    )


def _difference(spec: Mapping[str, Any], without: Mapping[str, Any]) -> Gift:
    """Take the runtime's spec of a container, less what one without devices has."""

    def new(found: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in found.items() if name not in before}

    return Gift(
        nodes=new(_nodes(spec), _nodes(without)),
        mounts=new(_mounts(spec), _mounts(without)),
        env=new(_env(spec), _env(without)),
        annotations=new(spec["annotations"], without["annotations"]),
    )


def _nodes(spec: Mapping[str, Any]) -> dict[str, str]:
    rules = spec["linux"]["resources"]["devices"]
    access = {
        (rule["type"], rule["major"], rule["minor"]): rule["access"]
        for rule in rules
        if rule["allow"] and "minor" in rule
    }
    return {
        node["path"]: f"{node['type']} {node['major']}:{node['minor']} "
        + access.get((node["type"], node["major"], node["minor"]), _DEFAULT_ACCESS)
        for node in spec["linux"].get("devices", ())
    }


def _mounts(spec: Mapping[str, Any]) -> dict[str, tuple[str, bool]]:
    return {m["destination"]: (m["source"], "ro" in m["options"]) for m in spec["mounts"]}


def _env(spec: Mapping[str, Any]) -> dict[str, str]:
    pairs = (text.partition("=") for text in spec["process"]["env"])
    return {name: value for name, _, value in pairs}
