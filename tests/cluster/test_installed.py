"""The shipped manifests, installed: what they promise, and no more rights than that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp import __version__

from tests.cluster import shipped
from tests.cluster.daemonset import NAMESPACE
from tests.cluster.dra.pods import consumer
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, HEAD, LOOP

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = pytest.mark.cluster
BY_KUSTOMIZE = pytest.mark.installed_by("kustomize")

_OWN = "/etc/genericdp/genericdp.yaml"
_READS_ITSELF = shipped.single(
    f"    values: {{kind: {{file: {_OWN}, regex: 'kind: (\\w+)'}}}}",
    "    id: $(value.kind)",
    f"    health: [{{file: {{path: {_OWN}, regex: DevicePluginConfig}}, periodSeconds: 1}}]",
    "    inject:",
    "      devices: [{path: $(device.path)}]",
    f"      mounts: [{{hostPath: {_OWN}, containerPath: /config.yaml}}]",
)


def test_the_pod_is_ready_at_the_first_go_and_shows_what_the_node_has(
    cluster: Cluster, daemon: DaemonPod
) -> None:
    assert daemon.restarts == 0
    cluster.await_allocatable(FUSE, 3)
    cluster.await_allocatable(LOOP, 0)
    assert (daemon.get("/livez")[0], daemon.get("/readyz")[0]) == (200, 200)
    status = daemon.status()
    assert (status["version"], status["node"]) == (__version__, "node1")
    in_the_pod = ("exec", "daemonset/genericdp", "--", "genericdp", "status")
    assert FUSE in cluster.kubectl("-n", NAMESPACE, *in_the_pod)
    program = Path(sys.executable).parent / "genericdp"
    from_the_node = (program, "status", f"--address={daemon.address}:9733")
    assert FUSE in subprocess.run(from_the_node, capture_output=True, text=True, check=True).stdout


def test_the_process_has_the_rights_that_are_promised_and_no_others(
    installed: DaemonSet, daemon: DaemonPod
) -> None:
    says = installed.kernel_says(daemon)
    assert {says[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (says["Seccomp"], says["NoNewPrivs"]) == ("2", "1")
    assert says["Uid"].split() == says["Gid"].split() == ["0"] * 4
    root = Path(f"/proc/{installed.process_id(daemon)}")
    options = installed.mounts(daemon)
    assert {options[path] for path in ("/", "/dev", "/sys", "/etc/genericdp")} == {"ro"}
    assert options["/var/lib/kubelet/device-plugins"] == "rw"
    assert not [path for path in options if "secrets" in path], "no token is mounted"
    # A network of its own, and no one else's processes.
    for kind in ("net", "pid", "ipc", "mnt"):
        assert (root / "ns" / kind).readlink() != Path("/proc/self/ns", kind).readlink()


@BY_KUSTOMIZE
def test_a_pod_waits_until_its_device_is_plugged_in(cluster: Cluster, daemon: DaemonPod) -> None:
    with consumer(cluster, "hotplug", LOOP) as pod:
        pod.await_pending(f"Insufficient {LOOP}")
        loop.add(61)
        pod.await_running()
        assert pod.sees("ls", "/dev").split().count("disk0") == 1
        loop.remove(61)
        cluster.await_allocatable(LOOP, 0)


@BY_KUSTOMIZE
@pytest.mark.usefixtures("put_back")
def test_values_probes_and_mounts_go_through_a_config_map_of_the_daemons_pod(
    cluster: Cluster, daemon: DaemonPod
) -> None:
    """Kubelets make its links in a directory that anyone can write to."""
    shipped.edit(cluster, _READS_ITSELF)
    eventually(
        # What had another ID before stays listed for a while.
        lambda: {device["id"]: device["reason"] for device in daemon.resource(FUSE)["devices"]},
        lambda reasons: reasons.get("DevicePluginConfig") == "",
        what="the config that reads itself is active",
    )
    cluster.await_allocatable(FUSE, 3)


@BY_KUSTOMIZE
@pytest.mark.usefixtures("put_back")
def test_fifty_resources_stay_below_the_memory_that_the_manifest_gives(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    """Also while they are read, and while metrics are requested."""
    line = "  - {{name: example.com/many-{}, match: [{{path: /dev/{}}}]}}\n"
    nodes = sorted(path.name for path in Path("/dev").iterdir() if path.is_char_device())
    many = (line.format(number, name) for number, name in enumerate(nodes[:50]))
    shipped.edit(cluster, HEAD + "".join(many))
    cluster.await_allocatable("example.com/many-49", 1)
    for _ in range(20):
        assert "many-49" in daemon.get("/metrics")[1]
        assert "many-49" in daemon.get("/status")[1]
    peak = int(installed.kernel_says(daemon)["VmHWM"].split()[0]) / 1024
    path = "jsonpath={.spec.containers[0].resources.limits.memory}"
    limit = cluster.kubectl("-n", NAMESPACE, "get", "pod", daemon.name, "-o", path)
    print(f"\n{peak:.1f} MiB at most, of {limit}")
    assert peak < 0.9 * int(limit.removesuffix("Mi"))
    assert installed.await_ready().restarts == 0
