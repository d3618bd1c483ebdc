"""A cluster with the daemon next to its kubelet, as a DRA driver and as a device plugin."""

from __future__ import annotations

import json
import re
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.cluster.dra.pods import Pod, apply, delete
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
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
        self._await_offer(resource, {*names}.__eq__, f"{resource}: {names}")

    def await_count(self, resource: str, count: int) -> None:
        """Wait until this many are offered."""
        self._await_offer(resource, lambda names: len(names) == count, f"{count} of {resource}")

    def _await_offer(self, resource: str, is_wanted: Callable[[set[str]], bool], what: str) -> None:
        def offered() -> set[str]:
            self.daemon.check_alive()
            return {*self.devices(resource)}

        eventually(offered, is_wanted, what=what)

    def await_pool(self, resource: str, count: int) -> None:
        """Wait until slices have this many devices, with taints too, and all are written."""

        def is_so(slices: list[dict[str, Any]]) -> bool:
            pools = [slice_["spec"]["pool"] for slice_ in slices]
            devices = [slice_["spec"].get("devices") or [] for slice_ in slices]
            return sum(map(len, devices)) == count and all(
                pool == pools[0] | {"resourceSliceCount": len(pools)} for pool in pools
            )

        eventually(lambda: self.slices(resource), is_so, what=f"the pool of {resource}")

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

    def prepared(self) -> set[str]:
        """Give the UIDs of the claims that the daemon has a record of."""
        return {path.stem for path in (self.state / "claims").glob("*.json")}

    def specs(self) -> set[str]:
        """Give the UIDs of the claims that containers can be given devices of."""
        found = self.cluster.cdi_directory.glob("genericdp-claim_*.json")
        return {path.stem.rpartition("_")[2] for path in found}

    def await_unprepared(self) -> None:
        """Wait until no claim is prepared."""
        eventually(self.prepared, lambda uids: not uids, what="no records")
        assert self.specs() == set()

    def status(self) -> dict[str, Any]:
        """Give the state of the daemon."""
        with urllib.request.urlopen(f"http://{ADDRESS}/status", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

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
