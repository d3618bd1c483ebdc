"""What an administrator, a crash loop or a broken connection does to daemon and kubelet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import FUSE, LOOP, RESOURCES
from tests.e2e.cluster import loop
from tests.e2e.cluster.connections import break_connections
from tests.e2e.cluster.sampling import Sampler
from tests.e2e.cluster.sweep import DEVICE_PLUGINS, remove_device_plugins
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
ALL_FUSE = ("fuse", "fuse::1", "fuse::2")
STORM = 6
_SHORT_SECONDS = 0.4


def assert_all_is_well(bench: Bench, *loops: int) -> None:
    """Check the lists, that a change still arrives, and that a pod gets devices."""
    bench.await_listed(FUSE, *ALL_FUSE)
    bench.await_listed(LOOP, *(f"loop{n}" for n in loops))
    loop.add(68)
    bench.await_listed(LOOP, *(f"loop{n}" for n in (*loops, 68)))
    bench.pod("next", {FUSE: 1, LOOP: 1}).container()


def test_a_storm_of_kubelet_restarts_ends_with_one_registration_of_each(bench: Bench) -> None:
    """KST-3, KST-5: each kubelet ends at any moment of the daemon's registration with it."""
    for number in range(STORM):
        bench.node.kill_kubelet()
        bench.node.start_kubelet()
        time.sleep(number * _SHORT_SECONDS / STORM)
    bench.node.stop_kubelet()
    bench.node.start_kubelet()
    assert_all_is_well(bench)
    bench.await_registrations(dict.fromkeys(RESOURCES, 1))


def test_a_storm_of_daemon_crashes_leaves_nothing_that_hinders_the_next_start(
    bench: Bench,
) -> None:
    """KST-7, REG-11: each daemon ends at any moment of its registration."""
    loop.add(60)
    for number in range(STORM):
        bench.daemon.kill()
        said = bench.daemon.log()
        bench.daemon.start()
        time.sleep(2 * number * _SHORT_SECONDS / STORM)
    # While Python itself starts SIGTERM ends it with the signal's own code.
    eventually(lambda: bench.daemon.log() != said, what="the last one has begun")
    bench.daemon.stop()
    bench.daemon.start()
    assert_all_is_well(bench, 60)


@pytest.mark.parametrize("by", ["the kubelet", "an administrator"])
def test_a_deleted_folder_takes_nothing_away_and_the_next_kubelet_has_all(
    bench: Bench, by: str
) -> None:
    """KST-1, KST-3, KST-9: open streams live on; the watch on the folder survives its end."""
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
    before = bench.node.registrations()
    remove_device_plugins()
    if by == "an administrator":
        DEVICE_PLUGINS.mkdir(mode=0o750)
    loop.add(61)
    eventually(
        lambda: bench.resources.allocatable().get(LOOP),
        frozenset({"loop60", "loop61"}).__eq__,
        what="a list on the open stream",
    )
    assert bench.node.registrations() == before
    bench.node.stop_kubelet()
    bench.node.start_kubelet()
    assert_all_is_well(bench, 60, 61)
    bench.await_registrations(dict.fromkeys(RESOURCES, 1))


def test_the_daemons_sockets_may_be_deleted(bench: Bench) -> None:
    """KST-9: the open streams live on, and the next kubelet is given new sockets."""
    with Sampler(bench.resources, {FUSE: frozenset(ALL_FUSE)}) as sampler:
        for path in DEVICE_PLUGINS.glob("genericdp-*.sock"):
            path.unlink()
        loop.add(60)
        bench.await_listed(LOOP, "loop60")
        bench.pod("meanwhile", {FUSE: 1, LOOP: 1}).container()
    assert sampler.longest_gap() == 0
    bench.node.kill_kubelet()
    bench.node.start_kubelet()
    assert_all_is_well(bench, 60)


def test_broken_connections_are_made_anew(bench: Bench) -> None:
    """K3, KST-7, REG-11: the kubelet and our sockets live, the streams are gone."""
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
    before = {path.name for path in DEVICE_PLUGINS.glob("genericdp-*.sock")}

    def registrations() -> list[int]:
        """Those of this daemon and of former ones, of other tests."""
        found = bench.node.registrations()
        return [found[name] for name in RESOURCES]

    once_more = [times + 1 for times in registrations()]
    wanted = {FUSE: frozenset(ALL_FUSE), LOOP: frozenset({"loop60"})}
    with Sampler(bench.resources, wanted) as sampler:
        broken = break_connections(bench.node.kubelet_pid, DEVICE_PLUGINS)
        assert set(broken) == before
        what = "all have registered once more"
        eventually(registrations, once_more.__eq__, what=what)
        sampler.seconds_until_whole(time.monotonic())
    print(
        f"\n--- kubelet {bench.node.version}: {len(broken)} connections broken,"
        f" {sampler.longest_gap():.2f} s without all devices",
        flush=True,
    )
    assert_all_is_well(bench, 60)
