"""A device is plugged in, and a pod that waits for it gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.pods import consumer
from tests.e2e.cluster import loop
from tests.e2e.scenarios import LOOP

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]


def test_a_pod_waits_until_its_device_is_plugged_in(cluster: Cluster, daemon: DaemonPod) -> None:
    with consumer(cluster, "hotplug", LOOP) as pod:
        pod.await_pending(f"Insufficient {LOOP}")
        loop.add(61)
        pod.await_running()
        assert pod.sees("ls", "/dev").split().count("disk0") == 1
        (device,) = daemon.resource(LOOP)["devices"]
        assert (device["id"], device["state"]) == ("loop61", "Healthy")
        loop.remove(61)
        cluster.await_allocatable(LOOP, 0)
