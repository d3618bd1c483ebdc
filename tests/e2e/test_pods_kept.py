"""A pod that runs keeps its device and its container, whatever becomes of daemon and kubelet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import FUSE, LOOP
from tests.e2e.cluster import loop
from tests.e2e.cluster.sampling import Sampler
from tests.e2e.cluster.sweep import DEVICE_PLUGINS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.bench import Bench
    from tests.e2e.cluster.listing import Ids

pytestmark = pytest.mark.e2e
ALL_FUSE = ("fuse", "fuse::1", "fuse::2")
LOOPS = range(60, 69)
"""Of each a pod takes one."""
GENEROUS_SECONDS = 10
"""For a machine that is busy; how long it really takes is printed."""


def reload(bench: Bench) -> float:
    """C7: the resource that the pod holds changes."""
    bench.daemon.reload(bench.daemon.config.replace("replicas: 3", "replicas: 4"))
    return time.monotonic()


def restart_daemon(bench: Bench) -> float:
    """KST-7, KST-11: SIGTERM, as a rolling update without surge does it."""
    bench.daemon.stop()
    bench.daemon.start()
    return time.monotonic()


def kill_daemon(bench: Bench) -> float:
    """KST-7: kill -9."""
    bench.daemon.kill()
    bench.daemon.start()
    return time.monotonic()


def restart_kubelet(bench: Bench) -> float:
    """KST-6: SIGTERM."""
    bench.node.stop_kubelet()
    bench.node.start_kubelet()
    return appeared()


def kill_kubelet(bench: Bench) -> float:
    """KST-6: kill -9."""
    bench.node.kill_kubelet()
    bench.node.start_kubelet()
    return appeared()


def roll(bench: Bench) -> float:
    """K10, REG-13: a new instance registers, then the old one is ended."""
    already = len(bench.daemon.log())

    bench.daemon.start_beside()
    bench.await_registered(FUSE, LOOP, since=already)
    since = time.monotonic()
    bench.daemon.stop_older()
    if bench.node.generation == "A":
        # Such a kubelet cuts off the new instance, too (REG-9b).
        bench.await_registered(FUSE, LOOP, since=already, times=2)
    return since


def appeared() -> float:
    """Give when the kubelet's socket came, on the monotonic clock."""
    return time.monotonic() - (time.time() - (DEVICE_PLUGINS / "kubelet.sock").stat().st_ctime)  # noqa: TID251


EVENTS: dict[str, Callable[[Bench], float]] = {
    "a reload": reload,
    "a restart of the daemon": restart_daemon,
    "a kill -9 of the daemon": kill_daemon,
    "a restart of the kubelet": restart_kubelet,
    "a kill -9 of the kubelet": kill_kubelet,
    "a rolling update": roll,
}


def test_a_pod_keeps_its_device_and_its_container_and_others_are_admitted(bench: Bench) -> None:
    """K2, K10, C7; KST-6: the kubelet has a full list within a second, and takes new pods."""
    for number in LOOPS:
        loop.add(number)
    wanted: Ids = {FUSE: frozenset(ALL_FUSE), LOOP: frozenset(f"loop{n}" for n in LOOPS)}
    bench.await_listed(LOOP, *wanted[LOOP])
    pod = bench.pod("kept", {FUSE: 1, LOOP: 1})
    container = pod.container()
    process_id, held = container.process_id(), bench.resources.held(pod.name)

    print(f"\n--- kubelet {bench.node.version}, in seconds", flush=True)
    for what, happen in EVENTS.items():
        with Sampler(bench.resources, wanted) as sampler:
            since = happen(bench)
            if what == "a reload":
                bench.await_listed(FUSE, *ALL_FUSE, "fuse::3")
            listed = sampler.seconds_until_whole(since)
            begun = time.monotonic()
            other = bench.pod("next", {LOOP: 1})
            other.admitted()
            admitted = time.monotonic() - begun
            other.container()
        gap = sampler.longest_gap()
        print(
            f"{what:26} listed after {listed:.2f}, gap {gap:.2f}, admitted in {admitted:.2f}",
            flush=True,
        )
        assert max(listed, gap if what == "a rolling update" else 0) < GENEROUS_SECONDS
        assert pod.container().id == container.id
        assert container.process_id() == process_id
        assert bench.resources.held(pod.name) == held
    sight = container.look()
    assert sight.writes["/dev/fuse"] == "ok"
    assert sight.reads["/dev/disk0"] == "ok"
