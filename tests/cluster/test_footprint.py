"""The pod's use of memory and CPU, by its control group, next to the manifest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster import shipped
from tests.cluster.accounting import MIB, Peak, account_of
from tests.cluster.configs import many
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, START

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]
_QUIET_SECONDS = 60
_SCRAPES = 20


def test_the_pod_stays_below_the_memory_that_the_manifest_gives_it(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    """With fifty resources, too, while they are read and while metrics are requested."""
    account = account_of(installed.process_id(daemon))
    limit = account.limit_bytes
    print(f"\n{'':24}{'own':>8}{'set':>8}{'peak':>8}   MiB of {limit / MIB:.0f}")
    for count in (1, 50):
        with Peak(account) as peak:
            shipped.edit(cluster, many(count))
            last = f"example.com/many-{count - 1}"
            cluster.await_allocatable(last, 1)
            for _ in range(_SCRAPES):
                assert last in daemon.get("/metrics")[1]
                assert last in daemon.get("/status")[1]
        own, working_set = account.own_bytes, account.working_set_bytes
        figures = "".join(f"{n / MIB:8.1f}" for n in (own, working_set, peak.bytes))
        print(f"{count:>4} resources{'':10}{figures}")
        assert peak.bytes < limit * 0.9
    shipped.edit(cluster, START)
    cluster.await_allocatable(FUSE, 3)
    assert installed.await_ready().restarts == 0


def test_a_quiet_minute_costs_next_to_nothing(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod
) -> None:
    """The kubelet's probes are in it; the figure is printed, since a busy machine distorts it."""
    eventually(lambda: daemon.status()["ready"], what="nothing is continuing")
    account = account_of(installed.process_id(daemon))
    before, began = account.cpu_seconds, time.monotonic()
    time.sleep(_QUIET_SECONDS)  # noqa: TID251 -- measures what happens at rest
    used, took = account.cpu_seconds - before, time.monotonic() - began
    print(f"\n{1000 * used / took:.1f} thousandths of a core over {took:.0f} quiet seconds")
    most = account.peak_bytes / MIB
    print(f"{account.own_bytes / MIB:.1f} MiB of its own, {most:.1f} at most, files and all")
    assert used < 0.1 * took
