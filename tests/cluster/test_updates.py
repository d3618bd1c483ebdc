"""Another version of the DaemonSet is rolled out while pods use devices."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from genericdp import __version__
from tests.cluster import shipped
from tests.cluster.configs import FUSE, config_with
from tests.cluster.consumers import consumer
from tests.cluster.counted import Counted
from tests.e2e.cluster.listing import PodResources
from tests.e2e.cluster.sampling import Sampler

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]


def test_an_update_takes_no_device_from_the_node_nor_from_a_pod_that_has_one(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    resources = PodResources(cluster.folder)
    shares = resources.allocatable()[FUSE]
    with consumer(cluster, "holder", FUSE) as pod:
        uid = pod.await_running()["metadata"]["uid"]
        process, held = pod.process_id(), resources.held(pod.pod()["metadata"]["name"])
        assert len(held[FUSE]) == 1
        began = time.monotonic()
        counted = Counted(lambda: cluster.allocatable(FUSE))
        with Sampler(resources, {FUSE: shares}) as sampler, counted:
            shipped.kustomize(cluster, config_with(), tag=shipped.OTHER_TAG)
            updated = installed.await_rolled_out()
            took = time.monotonic() - began
            sampler.seconds_until_whole(time.monotonic())
        print(f"\nupdated after {took:.1f} s; devices missing for {sampler.longest_gap():.2f} s")
        assert updated.uid != daemon.uid
        assert sampler.longest_gap() == 0
        print(f"what the node showed meanwhile, {counted.times} times asked: {counted.values}")
        assert counted.values == {3}
        now = pod.pod()
        assert (now["metadata"]["uid"], pod.process_id()) == (uid, process)
        assert resources.held(now["metadata"]["name"]) == held
        assert "fuse" in pod.sees("ls", "/dev").split()
    shipped.kustomize(cluster, config_with(), tag=__version__)
    installed.await_rolled_out()
