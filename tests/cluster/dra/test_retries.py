"""Pods begin and end although a kubelet, the daemon or a hook fails for a while."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.configs import DISK
from tests.cluster.dra.test_faults import DISKS, Kills, disk_of, disks, uid_of, with_disk
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench

__all__ = ["disks"]  # a fixture
pytestmark = pytest.mark.cluster


def test_what_begins_and_ends_without_a_kubelet_is_prepared_and_unprepared_by_the_next_one(
    bench: Bench, disks: None
) -> None:
    with bench.made(*with_disk("ends")) as running:
        running["ends"].await_running()
        first = disk_of(running["ends"])
        bench.cluster.kill_kubelet()
        running["ends"].delete()
        with bench.made(*with_disk("begins"), *with_disk("never")) as pods:
            for name in pods:
                eventually(partial(is_scheduled, bench, name), what=f"{name} is scheduled")
            pods["never"].delete()
            bench.cluster.start_kubelet()
            pods["begins"].await_running()
            for entry in (running["ends"], pods["never"]):
                entry.await_gone()
            assert bench.prepared() == {uid_of(bench, "begins")}
            second = disk_of(pods["begins"])
            assert sorted(bench.hooks()) == sorted(
                [f"allocate {first}", f"release {first}", f"allocate {second}"]
            )
    bench.await_unprepared()


def is_scheduled(bench: Bench, name: str) -> bool:
    return "allocation" in bench.claim(name).get("status", {})


def test_a_call_that_fails_is_repeated_also_by_a_kubelet_that_was_restarted(
    bench: Bench, disks: None
) -> None:
    with bench.made(*with_disk("retried")) as pods:
        retried, uid = pods["retried"], uid_of(bench, "retried")
        with failing_hooks(bench):
            eventually(
                lambda: "".join(bench.complaints("retried")),
                lambda said: "exited with" in said,
                what="the pod says why it does not start",
            )
            bench.restart_kubelet(DISK, len(DISKS))
            assert not retried.is_running()
        retried.await_running()
        disk = disk_of(retried)
        assert bench.hooks() == [f"allocate {disk}"]
        with failing_hooks(bench):
            retried.delete()
            for _ in range(2):
                failures = cannot_unprepare(bench)
                eventually(
                    lambda: cannot_unprepare(bench),
                    failures.__lt__,
                    what="the claim cannot be unprepared",
                )
                assert not retried.is_gone()
                assert bench.prepared() == bench.specs() == {uid}
                bench.restart_kubelet(DISK, len(DISKS))
        retried.await_gone()
        bench.await_unprepared()
        assert bench.hooks() == [f"release {disk}"]


@contextmanager
def failing_hooks(bench: Bench) -> Iterator[None]:
    """Let all hooks fail, because they cannot write to their log, and begin another log then."""
    log = bench.directory / "hooks"
    log.unlink(missing_ok=True)
    log.mkdir()
    try:
        yield
    finally:
        log.rmdir()


def cannot_unprepare(bench: Bench) -> int:
    return bench.daemon.log().count("claim default/retried cannot be unprepared")


def test_a_daemon_that_was_away_for_a_while_has_its_slices_and_claims_again(
    bench: Bench, disks: None
) -> None:
    """A kubelet deletes the slices of a driver that it has had no connection to for 30 s."""
    kills, before = Kills(bench), bench.slice_uids(DISK)
    bench.daemon.kill()
    kills.start()
    assert bench.slice_uids(DISK) == before, "it was back in time"
    with bench.made(*with_disk("stays")) as pods:
        stays = pods["stays"]
        stays.await_running()
        processes = stays.containers()
        bench.daemon.kill()
        eventually(lambda: bench.slices(DISK), [].__eq__, what="the kubelet deletes the slices")
        kills.start()
        bench.await_count(DISK, len(DISKS))
        assert stays.containers() == processes
        stays.delete()
        stays.await_gone()
    bench.await_unprepared()
