"""A cluster with the daemon next to its kubelet, as a DRA driver and as a device plugin."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genericdp.kubelet.podresources import list_pods, pods_in

from tests.cluster.dra.audit import Audit
from tests.cluster.dra.pods import Pod, apply, delete
from tests.e2e.cluster.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.e2e.cluster.daemon import Daemon

DRIVER = "genericdp.io"
ADDRESS = "127.0.0.1:10276"
"""Where the daemon shows its state."""
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """The parts that a test works with."""

    cluster: Cluster
    daemon: Daemon
    directory: Path
    """Hooks show here that they run."""

    @property
    def state(self) -> Path:
        """Return where the daemon keeps its records and sockets."""
        return self.cluster.directory / "kubelet/plugins" / DRIVER

    def audit(self) -> Audit:
        """Watch the requests to the API server from now on."""
        return Audit(self.cluster.directory)

    def slices(self, resource: str) -> list[dict[str, Any]]:
        """Give those of a resource, in the order of their names."""
        found = self.cluster.api.items(_SLICES)
        pool = re.sub(r"[^a-z0-9./-]", "-", resource)
        ours = [match for match in found if match["spec"]["driver"] == DRIVER]
        return [entry for entry in ours if entry["spec"]["pool"]["name"].endswith(f"/{pool}")]

    def devices(self, resource: str) -> dict[str, Mapping[str, Any]]:
        """Give what is offered of a resource: the attributes of each device without a taint."""
        return {
            device["name"]: device.get("attributes", {})
            for slice_ in self.slices(resource)
            for device in slice_["spec"].get("devices") or ()
            if not device.get("taints")
        }

    def await_devices(self, resource: str, *names: str) -> None:
        """Wait until exactly these are offered."""
        self.await_offer(resource, frozenset(names))

    def await_count(self, resource: str, count: int) -> None:
        """Wait until this many are offered."""
        self.await_offer(resource, count)

    def await_forgotten(self, *resources: str) -> None:
        """Wait until slices have no device of these, not even one with a taint."""
        eventually(
            lambda: [
                device["name"]
                for resource in resources
                for slice_ in self.slices(resource)
                for device in slice_["spec"].get("devices") or ()
            ],
            [].__eq__,
            what=f"no device of {', '.join(resources)}",
        )

    def await_offer(self, resource: str, wanted: frozenset[str] | int) -> None:
        """Wait until these, or this many, are offered."""

        def offered() -> frozenset[str]:
            self.daemon.check_alive()
            return frozenset(self.devices(resource))

        def is_wanted(names: frozenset[str]) -> bool:
            return (len(names) if isinstance(wanted, int) else names) == wanted

        eventually(offered, is_wanted, what=f"{resource}: {wanted}")

    def slice_uids(self, resource: str) -> set[str]:
        """Give the UIDs of the slices of a resource."""
        return {slice_["metadata"]["uid"] for slice_ in self.slices(resource)}

    def restart_kubelet(self, resource: str, count: int) -> None:
        """Kill it and start it, and wait until this many devices are offered again.

        A kubelet deletes all slices of its node when it starts.
        """
        before = self.slice_uids(resource)
        self.cluster.kill_kubelet()
        self.cluster.start_kubelet()
        eventually(
            lambda: self.slice_uids(resource),
            lambda uids: bool(uids) and not uids & before,
            what="there are other slices than before",
        )
        self.await_count(resource, count)

    def claim(self, name: str) -> dict[str, Any]:
        """Give a claim; empty if there is not one."""
        return self.cluster.api.get(f"{_CLAIMS}/{name}")

    def allocated(self, name: str) -> list[str]:
        """Give the devices that a claim has been given."""
        results = self.claim(name)["status"]["allocation"]["devices"]["results"]
        return [result["device"] for result in results]

    def used(self) -> set[tuple[str, str]]:
        """Give namespace and name of the claims that pods use, as the kubelet lists them."""
        socket = self.cluster.directory / "kubelet/pod-resources/kubelet.sock"
        answer = asyncio.run(list_pods(socket, timeout_seconds=PATIENCE_SECONDS))
        return {claim for pod in pods_in(answer) for claim in pod.claims}

    def prepared(self) -> set[str]:
        """Give the UIDs of the claims that the daemon has a record of."""
        return {path.stem for path in (self.state / "claims").glob("*.json")}

    def specs(self) -> set[str]:
        """Give the UIDs of the claims that containers can be given devices of."""
        found = self.cluster.cdi_directory.glob("genericdp-claim_*.json")
        return {path.stem.rpartition("_")[2] for path in found}

    def spec_of(self, uid: str) -> Path:
        """Give the file from which containers get the devices of a claim."""
        return self.cluster.cdi_directory / f"genericdp-claim_{DRIVER}_{uid}.json"

    def await_unprepared(self) -> None:
        """Wait until no claim is prepared."""
        eventually(self.prepared, lambda uids: not uids, what="no records")
        assert self.specs() == set()

    def ask(self, *words: str) -> str:
        """Run another command of genericdp; give what it prints."""
        command = (*self.daemon.program, *words)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def status(self) -> dict[str, Any]:
        """Give the state of the daemon."""
        found: dict[str, Any] = json.loads(self.ask("status", f"--address={ADDRESS}", "-o", "json"))
        return found

    def complaints(self, name: str) -> list[str]:
        """Give what the events of a pod say."""
        of_pod = f"fieldSelector=involvedObject.name%3D{name}"
        found = self.cluster.api.items(f"/api/v1/namespaces/default/events?{of_pod}")
        return [match.get("message") or "" for match in found]

    def hooks(self) -> list[str]:
        """Give which hooks ran, with the device's id: ``allocate loop61``."""
        file = self.directory / "hooks"
        return file.read_text().splitlines() if file.exists() else []

    @contextmanager
    def made(self, *manifests: dict[str, Any]) -> Iterator[dict[str, Pod]]:
        """Make these objects; give the pods among them by name, and remove all at the end."""
        apply(self.cluster, *manifests)
        pods = {
            manifest["metadata"]["name"]: Pod(
                self.cluster, manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            )
            for manifest in manifests
            if manifest["kind"] == "Pod"
        }
        try:
            yield pods
        finally:
            # All are asked to end before one is waited for.
            delete(self.cluster, *manifests)
