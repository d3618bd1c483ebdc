"""Static pods: their manifests, their state, and what their containers saw and were given."""

from __future__ import annotations

import itertools
import json
import os
import signal
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.e2e.cluster.node import LOOK_IMAGE, NODE_NAME
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.cluster.node import Node


_NUMBERS = itertools.count(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """The view from inside of a container."""

    text: str
    nodes: Mapping[str, str] = field(default_factory=dict)
    """``/dev/fuse`` → ``c a e5``: kind, and the numbers in hexadecimal."""
    reads: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    """What came of opening it so: ``ok``, or what the kernel said."""
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


def sight_of(text: str) -> Sight:
    """Take apart what ``look`` printed."""
    kinds: dict[str, dict[str, str]] = {"node": {}, "read": {}, "write": {}, "files": {}, "env": {}}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind in kinds:
            name, _, value = rest.partition("=" if kind == "env" else " ")
            kinds[kind][name] = value
    return Sight(
        text=text,
        nodes=kinds["node"],
        reads=kinds["read"],
        writes=kinds["write"],
        files=kinds["files"],
        env=kinds["env"],
    )


class Pod:
    """A static pod with one container, which looks around once and then sleeps."""

    def __init__(
        self,
        node: Node,
        name: str,
        limits: Mapping[str, int],
        look_at: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """``more``: of the pod's spec."""
        # A name that none had before: the logs of an earlier pod are not taken for this one's.
        name = f"{name}-{next(_NUMBERS)}"
        self.name = f"{name}-{NODE_NAME}"
        self._node = node
        self._file = node.directory / "manifests" / f"{name}.json"
        self._manifest = _manifest(name, limits, look_at, more or {})

    def __enter__(self) -> Pod:
        # The kubelet reads the directory at any moment: the file appears as a whole.
        written = self._node.directory / self._file.name
        written.write_text(json.dumps(self._manifest))
        written.rename(self._file)
        return self

    def withdraw(self) -> None:
        """Let it end; leaving the context waits for that."""
        self._file.unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let it end, and wait for that."""
        self.withdraw()
        eventually(self._running, lambda ids: not ids, what=f"{self.name} has ended")

    def state(self) -> dict[str, Any]:
        """Give the pod's status; empty while the kubelet has none."""
        for pod in self._node.pods():
            if pod["metadata"]["name"] == self.name:
                status: dict[str, Any] = pod.get("status", {})
                return status
        return {}

    def refusal(self) -> str:
        """Wait until the kubelet has refused the pod; give ``REASON: MESSAGE``."""
        state = eventually(
            self.state, lambda state: state.get("phase") == "Failed", what=f"{self.name} is refused"
        )
        return f"{state['reason']}: {state['message']}"

    def waits(self, reason: str) -> str:
        """Wait until its container is held up for this reason; give the message."""

        def waiting(state: Mapping[str, Any]) -> Mapping[str, str]:
            statuses = state.get("containerStatuses") or [{}]
            found: dict[str, str] = statuses[0].get("state", {}).get("waiting", {})
            return found

        state = eventually(
            self.state,
            lambda state: waiting(state).get("reason") == reason,
            what=f"the container of {self.name} waits: {reason}",
        )
        return waiting(state)["message"]

    def health(self) -> dict[str, str]:
        """Give what its status says of its devices: id → ``Healthy`` or ``Unhealthy``."""
        return {
            device["resourceID"]: device["health"]
            for container in self.state().get("containerStatuses", ())
            for resource in container.get("allocatedResourcesStatus", ())
            for device in resource["resources"]
        }

    def container(self, restarts: int = 0) -> Container:
        """Wait until its container runs, after this many restarts."""

        def runs(state: Mapping[str, Any]) -> bool:
            if state.get("phase") == "Failed":
                raise AssertionError(f"{self.name}: {state}")
            return any(
                c["state"].get("running") and c["restartCount"] >= restarts
                for c in state.get("containerStatuses", ())
            )

        state = eventually(self.state, runs, what=f"{self.name} runs")
        address = state["containerStatuses"][0]["containerID"]
        return Container(self._node, address.removeprefix("containerd://"), self.name)

    def _running(self) -> set[str]:
        label = f'labels."io.kubernetes.pod.name"=={self.name}'
        ours = self._node.ctr("containers", "ls", "-q", label).split()
        return self._node.running().keys() & set(ours)


class Container:
    """A running container."""

    def __init__(self, node: Node, container_id: str, pod: str) -> None:
        self.id = container_id
        self._node = node
        self._pod = pod

    def spec(self) -> dict[str, Any]:
        """Give what containerd had the runtime make."""
        spec: dict[str, Any] = json.loads(self._node.ctr("containers", "info", self.id))["Spec"]
        return spec

    def process_id(self) -> int:
        """Give its first process; fails if the container does not run."""
        return self._node.running()[self.id]

    def saw(self) -> Sight:
        """Give what it printed when it started."""
        logs = self._node.directory / "logs"
        lines = eventually(
            lambda: [
                line.split(" ", 3)[3]
                for log in logs.glob(f"*_{self._pod}_*/look/0.log")
                for line in log.read_text().split("\n")[:-1]  # the rest is being written
            ],
            lambda lines: "end" in lines,
            what=f"{self._pod} has looked around",
        )
        return sight_of("\n".join(lines))

    def look(self) -> Sight:
        """Let it look around again."""
        return sight_of(self.run("sh", "/bin/look", "once"))

    def run(self, *command: str) -> str:
        """Run a command of busybox in it, as its user; give what it prints."""
        name = f"run-{uuid.uuid4().hex[:8]}"
        command = ("/bin/busybox", *command)
        return self._node.ctr("tasks", "exec", "--exec-id", name, self.id, *command)

    def kill(self) -> None:
        """End it as a crash does."""
        os.kill(self.process_id(), signal.SIGKILL)


def _manifest(
    name: str, limits: Mapping[str, int], look_at: str, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Host network: a network of its own would need plugins and show nothing about devices."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "hostNetwork": True,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "look",
                    "image": LOOK_IMAGE,
                    "imagePullPolicy": "Never",
                    "env": [{"name": "LOOK_AT", "value": look_at}],
                    "resources": {"limits": {name: str(n) for name, n in limits.items()}},
                }
            ],
            **more,
        },
    }
