"""The ConfigMap is edited: the daemon follows, or keeps what it has and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import shipped
from tests.cluster.configs import single
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]

_OWN = "/etc/genericdp/genericdp.yaml"
_CONFIG = single(
    f"    values: {{kind: {{file: {_OWN}, regex: 'kind: (\\w+)'}}}}",
    "    id: $(value.kind)",
    f"    health: [{{file: {{path: {_OWN}, regex: DevicePluginConfig}}, periodSeconds: 1}}]",
    "    inject:",
    "      devices: [{path: $(device.path)}]",
    f"      mounts: [{{hostPath: {_OWN}, containerPath: /config.yaml}}]",
)


@pytest.fixture(autouse=True)
def config_is_put_back(cluster: Cluster, daemon: DaemonPod) -> Iterator[None]:
    """Leave the cluster with the config it began with."""
    yield
    shipped.edit(cluster, START)
    eventually(lambda: daemon.status()["config"]["problems"] == [], what="the config is good")
    cluster.await_allocatable(FUSE, 3)


def test_a_broken_edit_changes_nothing_and_is_seen_in_status_metric_and_log(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    assert daemon.metric("genericdp_config_valid") == 1
    before = daemon.status()["config"]
    shipped.edit(cluster, START.replace("replicas:", "replica:"))
    eventually(lambda: daemon.status()["config"]["problems"], what="a problem is reported")
    status = daemon.status()
    (problem,) = status["config"]["problems"]
    assert problem.startswith("/etc/genericdp/genericdp.yaml:7:5: ")
    assert "replica" in problem
    assert status["config"]["digest"] == before["digest"]
    assert daemon.metric("genericdp_config_valid") == 0
    installed.await_logged(problem)
    assert cluster.allocatable(FUSE) == 3
    now = installed.await_ready()
    assert (now.uid, now.restarts, status["ready"]) == (daemon.uid, daemon.restarts, True)


def test_values_probes_and_mounts_go_through_a_config_map_of_the_daemons_pod(
    cluster: Cluster, daemon: DaemonPod
) -> None:
    """Kubelets make its links in a directory that anyone can write to."""
    shipped.edit(cluster, _CONFIG)
    eventually(
        # What had another ID before stays listed for a while.
        lambda: {device["id"]: device["reason"] for device in daemon.resource(FUSE)["devices"]},
        lambda reasons: reasons.get("DevicePluginConfig") == "",
        what="the config that reads itself is active",
    )
    cluster.await_allocatable(FUSE, 3)
