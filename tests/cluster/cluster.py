"""A whole cluster of one node: a node whose kubelet has a control plane."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster import control_plane
from tests.cluster.api import Api, Tool
from tests.cluster.network import NODE_ADDRESS, configure_plugins, give_addresses
from tests.e2e.cluster.node import LOOK_IMAGE, NODE_NAME, Binaries, Node
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_API_SERVER, _CONTROLLERS = "kube-apiserver", "kube-controller-manager"
_SCHEDULER = "kube-scheduler"
# How soon the node shows what changed. By default that is every 10 s, and a ConfigMap's files are
# as new as once a minute (syncFrequency, which a node of ours has at 5 s).
_MORE_OF_THE_KUBELET = """\
nodeStatusUpdateFrequency: 1s
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts(Binaries):
    """The programs, where the build left them."""

    control_plane: Path
    etcd: Path
    helm: Path


class Cluster(Node):
    """Owns the processes of a control plane and of its node."""

    address = NODE_ADDRESS

    def __init__(self, directory: Path, parts: Parts) -> None:
        super().__init__(directory, parts)
        self._parts = parts
        self.api = Api()
        cache = f"--cache-dir={directory}/home/cache"
        self.kubectl = Tool(parts.control_plane / "kubectl", directory, cache)
        self.helm = Tool(parts.helm / "helm", directory)

    def shell_environment(self) -> dict[str, str]:
        """Return the environment of a shell in which ``kubectl`` is for this cluster."""
        # The variables of the tests' own would be options of genericdp.
        given = {key: text for key, text in os.environ.items() if not key.startswith("GENERICDP_")}
        return {
            **given,
            "HOME": f"{self.directory}/home",
            "KUBECONFIG": f"{self.directory}/{control_plane.ADMIN}.kubeconfig",
            "PATH": f"{self._parts.control_plane}:{os.environ['PATH']}",
        }

    @property
    def cdi_directory(self) -> Path:
        """The machine's, which is what the shipped manifests mount."""
        return Path("/var/run/cdi")

    def _start(self) -> None:
        (self.directory / "home").mkdir(parents=True)
        give_addresses()
        self._start_containerd()
        configure_plugins(self.directory / "cni", self.directory / "addresses")
        control_plane.write_files(self.directory)
        self._run(self._parts.etcd / "etcd", control_plane.etcd(self.directory))
        self.start_control_plane()
        self.start_kubelet()
        self.await_ready()
        # Names as shipped manifests and people write them.
        self.ctr("images", "tag", LOOK_IMAGE, "docker.io/library/busybox:stable-musl")

    @contextmanager
    def linked(self, *names: str) -> Iterator[None]:
        """Have directories of its kubelet also where other nodes have them."""
        links = [DEVICE_PLUGINS.parent / name for name in names]
        for link in links:
            link.symlink_to(self.directory / "kubelet" / link.name)
        try:
            yield
        finally:
            for link in links:
                link.unlink()

    def start_control_plane(self) -> None:
        """Start the API server and, as soon as it answers, who works with it."""
        programs, directory = self._parts.control_plane, self.directory
        self._run(programs / _API_SERVER, control_plane.api_server(directory))
        eventually(self._api_answers, what="the API server answers")
        self._run(programs / _CONTROLLERS, control_plane.controller_manager(directory))
        self._run(programs / _SCHEDULER, control_plane.scheduler(directory))

    def kill_control_plane(self) -> None:
        """End it as a crash of its machine does: no one listens."""
        for name in (_SCHEDULER, _CONTROLLERS, _API_SERVER):
            self._end(name, signal.SIGKILL)

    def _api_answers(self) -> bool:
        ended = self._running[_API_SERVER].poll() is not None
        assert not ended, f"{_API_SERVER} ended:\n{self.log(_API_SERVER)[-5000:]}"
        return self.api.answers()

    def _run(self, program: Path, arguments: Iterable[str]) -> None:
        self._launch(program.name, str(program), *arguments)

    def _kubelet_config(self, policy: str) -> str:
        return super()._kubelet_config(policy) + _MORE_OF_THE_KUBELET

    def _kubelet_arguments(self) -> dict[str, str]:
        return super()._kubelet_arguments() | control_plane.kubelet(self.directory)

    def await_ready(self) -> None:
        """Wait until pods are scheduled to the node."""
        eventually(self._takes_pods, what="the node is ready")

    def _takes_pods(self) -> bool:
        node = self.node()
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node.get("status", {}).get("conditions", ())
        )
        return ready and not node["spec"].get("taints")

    def node(self) -> dict[str, Any]:
        """Give the Node object."""
        return self.api.get(f"/api/v1/nodes/{NODE_NAME}")

    def allocatable(self, resource: str) -> int | None:
        """Give how many pods could have; None if the node does not know the resource."""
        count = self.node().get("status", {}).get("allocatable", {}).get(resource)
        return None if count is None else int(count)

    def await_allocatable(self, resource: str, count: int) -> float:
        """Wait until the node has this many; give how long that took, in seconds."""
        began = time.monotonic()
        eventually(
            lambda: self.allocatable(resource),
            lambda found: found == count,
            what=f"{count} of {resource} are allocatable",
        )
        return time.monotonic() - began
