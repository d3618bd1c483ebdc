"""The overlays and components that give the daemon's pod more than the base does, or bound it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import shipped
from tests.cluster.daemonset import NAMESPACE
from tests.cluster.dra.pods import consumer
from tests.e2e.scenarios import FUSE

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.installed_by("kustomize"),
    pytest.mark.usefixtures("put_back"),
]

_RUN = "/opt/tools/busybox, sh, /opt/scripts"
_TOOLS = shipped.single(
    "    health:",
    f"      - exec: {{command: [{_RUN}/check, $(device.path)]}}",
    "        periodSeconds: 1",
    "        failureThreshold: 1",
    '      - {file: {path: /sys/class/misc/fuse/dev, regex: "^10:229$"}, periodSeconds: 1}',
    f"    hooks: {{allocate: {{exec: {{command: [{_RUN}/prepare, $(device.path)]}}}}}}",
)
_HELD_UP = 'echo "$1 is being cleaned"; exit 1\n'
_READY = '/opt/tools/busybox test -c "$1" || exit 1\n'


def _scripts(check: str) -> dict[str, str]:
    return {"check": check, "prepare": _READY}


_OPENING = shipped.single(
    "    health:",
    "      - {open: {mode: rw}, periodSeconds: 1, failureThreshold: 1}",
    "      - kernelLog: {regex: 'this is never logged'}",
)


def test_probes_that_open_devices_need_the_privileged_overlay_and_work_with_it(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    shipped.edit(cluster, _OPENING)
    cluster.await_allocatable(FUSE, 0)
    daemon.await_reason(FUSE, "Operation not permitted")
    shipped.kustomize(cluster, _OPENING, of=shipped.OVERLAYS / "privileged-probes")
    privileged = installed.await_rolled_out()
    cluster.await_allocatable(FUSE, 3)
    says = installed.kernel_says(privileged)
    assert int(says["CapEff"], 16)
    assert says["NoNewPrivs"] == "1", "the daemon gives up what it can"
    assert [device["reason"] for device in privileged.resource(FUSE)["devices"]] == [""]


def test_on_the_nodes_network_it_listens_on_loopback_and_the_probes_reach_it(
    cluster: Cluster, installed: DaemonSet
) -> None:
    shipped.kustomize(cluster, shipped.single(), of=shipped.OVERLAYS / "host-network")
    there = installed.await_rolled_out()
    cluster.await_allocatable(FUSE, 3)
    assert there.address == cluster.address
    assert there.get("/status")[0] == 0, "no one else reaches it"
    words = ("exec", "daemonset/genericdp", "--", "genericdp", "status")
    assert FUSE in cluster.kubectl("-n", NAMESPACE, *words)


def test_a_probe_and_a_hook_run_with_the_rights_of_the_base(
    cluster: Cluster, installed: DaemonSet
) -> None:
    tools = shipped.OVERLAYS / "tools"
    shipped.kustomize(cluster, _TOOLS, of=tools, files=_scripts(_READY))
    with_tools = installed.await_rolled_out()
    assert installed.kernel_says(with_tools)["CapEff"] == "0" * 16
    cluster.await_allocatable(FUSE, 3)
    with consumer(cluster, "prepared", FUSE) as pod:
        pod.await_running()
        labels = f'hook="allocate",resource="{FUSE}",result="success"'
        assert f"genericdp_hook_results_total{{{labels}}} 1.0" in with_tools.get("/metrics")[1]
    shipped.kustomize(cluster, _TOOLS, of=tools, files=_scripts(_HELD_UP))
    cluster.await_allocatable(FUSE, 0)
    with_tools.await_reason(FUSE, "/dev/fuse is being cleaned")
    assert installed.await_ready().restarts == 0
