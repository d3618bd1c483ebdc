"""The kubelet goes and comes back, and so does its folder, below the pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster.sweep import DEVICE_PLUGINS, remove_device_plugins
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, LOOP

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]


def test_without_a_kubelet_the_pod_is_not_ready(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    """C9: every resource is named whose stream is not open, as long as it is not.

    What would bring it back: `not_ready` of `status/state.py` leaves the resources out.
    """
    cluster.stop_kubelet()
    daemon.await_not_ready(FUSE, LOOP)
    assert daemon.get("/livez")[0] == 200
    cluster.start_kubelet()
    eventually(lambda: daemon.get("/readyz")[0], (200).__eq__, what="/readyz says yes")
    now = installed.await_ready()
    assert (now.uid, now.restarts) == (daemon.uid, 0)


def test_a_kubelet_that_makes_its_folder_anew_gets_all_resources_again(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    """The mount leads to the deleted folder: the daemon ends, and its container starts again."""
    cluster.stop_kubelet()
    remove_device_plugins()
    cluster.start_kubelet()
    restarted = eventually(
        installed.pods,
        lambda pods: len(pods) == 1 and pods[0].restarts >= 1 and pods[0].ready,
        what="the container has started again",
    )[0]
    cluster.await_allocatable(FUSE, 3)
    assert (restarted.uid, restarted.restarts) == (daemon.uid, 1)
    said = cluster.api.items("/api/v1/namespaces/genericdp/pods")[0]["status"]
    last = said["containerStatuses"][0]["lastState"]["terminated"]
    assert last["exitCode"] == 1
    assert str(DEVICE_PLUGINS) in last["message"]
