"""Readiness where no kubelet takes the daemon, or where it makes its directory again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.daemonset import NAMESPACE
from tests.e2e.cluster.sweep import DEVICE_PLUGINS, remove_device_plugins
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, LOOP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]


@pytest.fixture
def never_taken(cluster: Cluster, installed: DaemonSet, daemon: DaemonPod) -> Iterator[DaemonPod]:
    """Update to one that looks for the kubelet where none is, and take that back."""
    elsewhere = cluster.directory / "no-kubelet-is-here"
    elsewhere.mkdir()
    volume = {"name": "device-plugins", "hostPath": {"path": str(elsewhere), "type": "Directory"}}
    patch = json.dumps({"spec": {"template": {"spec": {"volumes": [volume]}}}})
    cluster.kubectl("-n", NAMESPACE, "patch", "daemonset", "genericdp", "-p", patch)
    try:
        (newer,) = eventually(
            lambda: [pod for pod in installed.pods() if pod.uid != daemon.uid],
            lambda pods: len(pods) == 1 and bool(pods[0].address),
            what="the new pod has an address",
        )
        yield newer
    finally:
        cluster.kubectl("-n", NAMESPACE, "rollout", "undo", "daemonset/genericdp")
        installed.await_rolled_out()


def test_a_daemon_that_no_kubelet_takes_is_not_ready_and_does_not_replace_one_that_is(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod, never_taken: DaemonPod
) -> None:
    """C9: ready means that the kubelet has every resource; the pod says which it has not."""
    eventually(
        lambda: never_taken.get("/readyz"),
        lambda seen: seen[0] == 503 and FUSE in seen[1] and LOOP in seen[1],
        what="/readyz names both resources",
    )
    assert never_taken.get("/livez")[0] == 200
    eventually(
        lambda: [
            entry["message"]
            for entry in cluster.api.items(f"/api/v1/namespaces/{NAMESPACE}/events")
            if entry["involvedObject"]["uid"] == never_taken.uid
        ],
        lambda said: any("Readiness probe failed" in line and "503" in line for line in said),
        what="the kubelet shows that the pod is not ready",
    )
    # The update goes no further: the older pod serves on.
    ready = {pod.uid: pod.ready for pod in installed.pods()}
    assert ready == {daemon.uid: True, never_taken.uid: False}
    assert cluster.allocatable(FUSE) == 3


def test_a_kubelet_that_makes_its_directory_anew_gets_all_resources_again(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    """The mount leads to the deleted directory: the daemon ends, and its container starts again."""
    cluster.stop_kubelet()
    remove_device_plugins()
    cluster.start_kubelet()
    restarted = eventually(
        installed.pods,
        lambda pods: len(pods) == 1 and pods[0].restarts > daemon.restarts and pods[0].ready,
        what="the container has started again",
    )[0]
    cluster.await_allocatable(FUSE, 3)
    assert (restarted.uid, restarted.restarts) == (daemon.uid, daemon.restarts + 1)
    said = cluster.api.items("/api/v1/namespaces/genericdp/pods")[0]["status"]
    last = said["containerStatuses"][0]["lastState"]["terminated"]
    assert last["exitCode"] == 1
    assert str(DEVICE_PLUGINS) in last["message"]
