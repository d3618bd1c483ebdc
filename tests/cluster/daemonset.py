"""The DaemonSet's pods, as their user sees them and as the node's kernel does."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

NAMESPACE = "genericdp"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PORT = 9733


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonPod:
    """One of them at one moment."""

    name: str
    uid: str
    address: str
    ready: bool
    restarts: int
    container: str
    """The id of the daemon's container; empty: it has not been made."""

    def get(self, path: str) -> tuple[int, str]:
        """Ask its port, from the node; give status and body, or 0 and the error."""
        try:
            with urllib.request.urlopen(
                f"http://{self.address}:{_PORT}{path}", timeout=30
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            return 0, str(error)

    def status(self) -> dict[str, Any]:
        """Give its state."""
        text = eventually(lambda: self.get("/status"), lambda seen: seen[0] == 200, what="/status")
        found: dict[str, Any] = json.loads(text[1])
        return found

    def resource(self, name: str) -> dict[str, Any]:
        """Give what its state says of a resource."""
        (found,) = (entry for entry in self.status()["resources"] if entry["name"] == name)
        return dict(found)

    def await_reason(self, name: str, text: str) -> None:
        """Wait until a device of a resource is Unhealthy for a reason with this text."""

        eventually(
            lambda: [device["reason"] for device in self.resource(name)["devices"]],
            lambda reasons: any(text in reason for reason in reasons),
            what=f"{name} is Unhealthy: {text}",
        )


class DaemonSet:
    """That of the shipped manifests."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def pods(self) -> list[DaemonPod]:
        """Give those that are there and are not ending."""
        found = self._cluster.api.items(_PODS)
        return [_seen(pod) for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def await_ready(self) -> DaemonPod:
        """Wait until there is exactly one and it is ready; give it."""
        try:
            (pod,) = eventually(
                self.pods,
                lambda pods: len(pods) == 1 and pods[0].ready,
                what="the DaemonSet's pod is ready",
            )
        except AssertionError as error:
            error.add_note(self.described())
            raise
        return pod

    def await_rolled_out(self) -> DaemonPod:
        """Wait until an update of the DaemonSet has ended; give the new pod."""
        words = ("rollout", "status", "daemonset/genericdp", "--timeout=300s")
        self._cluster.kubectl("-n", NAMESPACE, *words)
        return self.await_ready()

    def process_id(self, pod: DaemonPod) -> int:
        """Give the daemon's process, by its number on the node."""
        return self._cluster.running()[pod.container]

    def kernel_says(self, pod: DaemonPod) -> dict[str, str]:
        """Give what /proc reports the daemon's process."""
        text = Path(f"/proc/{self.process_id(pod)}/status").read_text()
        return dict(line.split(":\t", 1) for line in text.splitlines())

    def mounts(self, pod: DaemonPod) -> dict[str, str]:
        """Give how each path is mounted: ``ro`` or ``rw``."""
        lines = Path(f"/proc/{self.process_id(pod)}/mounts").read_text().splitlines()
        return {words[1]: words[3].split(",")[0] for words in map(str.split, lines)}

    def await_logged(self, text: str) -> None:
        """Wait until the pod has logged a string, which the runtime writes down after a moment."""
        eventually(self._log, lambda log: text in log, what=f"log: {text}")

    def _log(self) -> str:
        """Give what the pod has logged, as kubectl shows it."""
        return self._cluster.kubectl("-n", NAMESPACE, "logs", "daemonset/genericdp", check=False)

    def described(self) -> str:
        """Give all that helps to see why it is not ready."""
        return self._cluster.kubectl("-n", NAMESPACE, "describe", "pods", check=False) + self._log()


def _seen(pod: dict[str, Any]) -> DaemonPod:
    status = pod["status"]
    conditions = {entry["type"]: entry["status"] for entry in status.get("conditions", ())}
    containers: list[dict[str, Any]] = status.get("containerStatuses") or [{}]
    (container,) = containers
    return DaemonPod(
        name=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        address=status.get("podIP", ""),
        ready=conditions.get("Ready") == "True",
        restarts=container.get("restartCount", 0),
        container=container.get("containerID", "").removeprefix("containerd://"),
    )
