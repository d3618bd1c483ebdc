"""A vanished device that a pod holds stays listed (``--pod-resources``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import LOOP
from tests.e2e.cluster import loop
from tests.e2e.cluster.listing import lists
from tests.e2e.cluster.versions import NEWEST
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

# With one alone: it takes more than a minute.
pytestmark = [pytest.mark.e2e, pytest.mark.kubelets(NEWEST[0])]


def test_a_vanished_device_stays_unhealthy_until_its_pod_has_ended(bench: Bench) -> None:
    """LAW-10, PRS-1: a kubelet calls a device healthy that is missing from the list."""

    def total_and_healthy() -> tuple[int, int]:
        return lists(bench.node.log("kubelet"), LOOP)[-1]

    bench.daemon.stop()
    bench.daemon.options = ("--pod-resources", str(bench.resources.socket))
    bench.daemon.start()
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
    pod = bench.pod("holder", {LOOP: 1})
    pod.container()
    loop.add(61)
    bench.await_listed(LOOP, "loop60", "loop61")
    loop.remove(60)
    loop.remove(61)
    eventually(total_and_healthy, (2, 0).__eq__, what="both are Unhealthy")

    # For a minute the daemon does not believe a kubelet that is new to it.
    what = "the device that nobody holds has left the list, the other one has not"
    eventually(total_and_healthy, (1, 0).__eq__, what=what)
    eventually(pod.health, {"loop60": "Unhealthy"}.__eq__, what="the pod's status tells of it")
    pod.withdraw()
    eventually(total_and_healthy, (0, 0).__eq__, what="the other one has left")
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
