"""The shipped manifests, installed: they run with the promised rights and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp import __version__

from tests.cluster.daemonset import NAMESPACE
from tests.e2e.scenarios import FUSE, LOOP

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = pytest.mark.cluster


def test_the_pod_is_ready_at_the_first_go_and_the_node_shows_the_resources(
    cluster: Cluster, daemon: DaemonPod
) -> None:
    assert daemon.restarts == 0
    cluster.await_allocatable(FUSE, 3)
    cluster.await_allocatable(LOOP, 0)
    assert daemon.get("/livez")[0] == 200
    assert daemon.get("/readyz")[0] == 200
    status = daemon.status()
    assert (status["ready"], status["version"]) == (True, __version__)
    assert status["node"] == "node1"


def test_the_process_has_the_rights_that_are_promised_and_no_others(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    says = installed.kernel_says(daemon)
    assert {says[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (says["Seccomp"], says["NoNewPrivs"]) == ("2", "1")
    assert says["Uid"].split() == says["Gid"].split() == ["0"] * 4
    root = Path(f"/proc/{installed.process_id(daemon)}")
    mounts = [line.split() for line in (root / "mounts").read_text().splitlines()]
    options = {mount[1]: mount[3].split(",")[0] for mount in mounts}
    assert {options[path] for path in ("/", "/dev", "/sys", "/etc/genericdp")} == {"ro"}
    assert options["/var/lib/kubelet/device-plugins"] == "rw"
    assert not [path for path in options if "secrets" in path], "no token is mounted"
    # A network of its own, and no one else's processes.
    for kind in ("net", "pid", "ipc", "mnt"):
        assert (root / "ns" / kind).readlink() != Path("/proc/self/ns", kind).readlink()


def test_kubectl_exec_shows_the_state_and_so_does_status_from_the_node(
    cluster: Cluster, daemon: DaemonPod
) -> None:
    in_the_pod = cluster.kubectl(
        "-n", NAMESPACE, "exec", "daemonset/genericdp", "--", "genericdp", "status"
    )
    assert FUSE in in_the_pod
    asked = subprocess.run(
        [
            Path(sys.executable).parent / "genericdp",
            "status",
            "--address",
            f"{daemon.address}:9733",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert FUSE in asked.stdout
