"""The overlays and components that give the daemon's pod more than the base does, or bound it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp import __version__

from tests.cluster import shipped
from tests.cluster.configs import single
from tests.cluster.daemonset import NAMESPACE
from tests.cluster.dra.pods import consumer
from tests.deploy.rendering import with_components
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, START

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]

_RUN = "/opt/tools/busybox, sh, /opt/scripts"
_TOOLS = single(
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


_OPENING = single(
    "    health:",
    "      - {open: {mode: rw}, periodSeconds: 1, failureThreshold: 1}",
    "      - kernelLog: {regex: 'this is never logged'}",
)
_BY_CDI = single("    inject: {by: cdi}")
_FORBIDDEN = single(
    "    inject:", "      mounts: [{hostPath: /etc, containerPath: /etc/of-the-node}]"
)


@pytest.fixture(autouse=True)
def base_is_put_back(cluster: Cluster, installed: DaemonSet, daemon: DaemonPod) -> Iterator[None]:
    """Leave the cluster with the base and the config it began with."""
    yield
    shipped.kustomize(cluster, START, tag=__version__)
    installed.await_rolled_out()


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


def test_cdi_specs_need_the_component_and_reach_containers_with_it(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod, tmp_path: Path
) -> None:
    shipped.edit(cluster, _BY_CDI)
    cluster.await_allocatable(FUSE, 0)
    daemon.await_reason(FUSE, "/var/run/cdi")
    shipped.kustomize(cluster, _BY_CDI, of=with_components(tmp_path, ["cdi"]))
    writing = installed.await_rolled_out()
    cluster.await_allocatable(FUSE, 3)
    assert int(installed.kernel_says(writing)["CapEff"], 16) == 0
    with consumer(cluster, "by-cdi", FUSE) as given:
        given.await_running()
        assert given.sees("ls", "/dev/fuse") == "/dev/fuse\n"
    # The daemon takes its spec away again, which the base's could not.
    shipped.edit(cluster, single())
    cluster.await_allocatable(FUSE, 3)
    words = ("exec", "daemonset/genericdp", "--", "genericdp", "cdi", "list")
    eventually(
        lambda: cluster.kubectl("-n", NAMESPACE, *words),
        lambda said: "has written no CDI spec" in said,
        what="the spec is missing",
    )


def test_a_config_that_breaks_the_administrators_policy_is_refused(
    cluster: Cluster, installed: DaemonSet
) -> None:
    shipped.kustomize(cluster, single(), of=shipped.OVERLAYS / "policy")
    bounded = installed.await_rolled_out()
    cluster.await_allocatable(FUSE, 3)
    shipped.edit(cluster, _FORBIDDEN)
    problems = eventually(
        lambda: bounded.status()["config"]["problems"], what="a problem is reported"
    )
    assert "/etc" in problems[0]
    assert "policy" in problems[0]
    assert cluster.allocatable(FUSE) == 3


def test_on_the_nodes_network_it_listens_on_loopback_and_the_probes_reach_it(
    cluster: Cluster, installed: DaemonSet
) -> None:
    shipped.kustomize(cluster, single(), of=shipped.OVERLAYS / "host-network")
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
        assert with_tools.metric(f"genericdp_hook_results_total{{{labels}}}") >= 1
    shipped.kustomize(cluster, _TOOLS, of=tools, files=_scripts(_HELD_UP))
    cluster.await_allocatable(FUSE, 0)
    with_tools.await_reason(FUSE, "/dev/fuse is being cleaned")
    assert installed.await_ready().restarts == 0
