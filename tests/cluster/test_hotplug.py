"""A device is plugged in, and a pod that waits for it gets it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.configs import LOOP
from tests.cluster.consumers import consumer
from tests.e2e.cluster import loop

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]


def test_a_deployment_waits_until_its_device_is_plugged_in(
    cluster: Cluster, daemon: DaemonPod
) -> None:
    with consumer(cluster, "hotplug", LOOP) as pod:
        pod.await_pending(f"Insufficient {LOOP}")
        loop.add(61)
        plugged = time.monotonic()
        print(f"\nallocatable {cluster.await_allocatable(LOOP, 1):.1f} s after it was plugged in")
        pod.await_running()
        print(f"the pod runs {time.monotonic() - plugged:.1f} s after it was plugged in")
        assert pod.sees("ls", "/dev").split().count("loop61") == 1
        (device,) = daemon.resource(LOOP)["devices"]
        assert (device["id"], device["state"]) == ("loop61", "Healthy")
        loop.remove(61)
        cluster.await_allocatable(LOOP, 0)
