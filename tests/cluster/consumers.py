"""Pods that ask for devices, as a cluster's users make them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e.cluster.node import LOOK_IMAGE
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster


class Consumer:
    """A Deployment with one pod, which gets a device and sleeps."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def pod(self) -> dict[str, Any]:
        """Give its pod; empty as long as there is none."""
        found = self._cluster.api.items(
            f"/api/v1/namespaces/default/pods?labelSelector=app%3D{self._name}"
        )
        return found[0] if found else {}

    def phase(self) -> str:
        """Give the phase of its pod."""
        return str(self.pod().get("status", {}).get("phase", ""))

    def await_running(self) -> dict[str, Any]:
        """Wait until its container runs; give the pod."""
        eventually(self.phase, "Running".__eq__, what=f"{self._name} runs")
        return self.pod()

    def await_pending(self, why: str) -> None:
        """Wait until the scheduler has found no node for it, and says why."""

        def said() -> str:
            conditions = self.pod().get("status", {}).get("conditions", ())
            return next(
                (one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), ""
            )

        eventually(said, lambda text: why in text, what=f"{self._name} cannot be scheduled")

    def process_id(self) -> int:
        """Give the process of its container, by its number on the node."""
        (status,) = self.pod()["status"]["containerStatuses"]
        return self._cluster.running()[status["containerID"].removeprefix("containerd://")]

    def sees(self, *words: str) -> str:
        """Run busybox in its container; give what it prints."""
        return self._cluster.kubectl(
            "exec", f"deployment/{self._name}", "--", "/bin/busybox", *words
        )


@contextmanager
def consumer(cluster: Cluster, name: str, resource: str) -> Iterator[Consumer]:
    """Make one that asks for one device of a resource."""
    labels = {"app": name}
    container = {
        "name": "main",
        "image": LOOK_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/busybox", "sleep", "2147483647"],
        "resources": {"limits": {resource: "1"}},
    }
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    cluster.kubectl("apply", "-f", "-", given=json.dumps(deployment))
    found = Consumer(cluster, name)
    try:
        yield found
    finally:
        cluster.kubectl("delete", "deployment", name, "--cascade=foreground", "--timeout=180s")
