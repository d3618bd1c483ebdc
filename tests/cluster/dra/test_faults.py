"""Claims are prepared and given back while kubelet, daemon, API server or boot are missing."""

from __future__ import annotations

import os
import signal
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.configs import DISK
from tests.cluster.dra.pods import claim, request, user
from tests.e2e.cluster import loop
from tests.e2e.cluster.numa import View
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.dra.bench import Bench
    from tests.cluster.dra.pods import Manifest

pytestmark = pytest.mark.cluster

API_GONE_SECONDS = float(os.environ.get("API_GONE_SECONDS", "5"))
"""How long no one listens: see docs/development/e2e.md."""
ONLY = "loop61"


def with_disk(name: str, **more: object) -> tuple[Manifest, Manifest]:
    """Give a claim, and a pod that has it; ``more`` is of the pod's spec."""
    wanted, made = user(claim(name, request("disk", "disk.example.com")))
    made["spec"] |= more
    return wanted, made


def test_a_daemon_has_its_slices_and_claims_again_after_an_absence_and_a_kubelets_restart(
    disks: Bench,
) -> None:
    """A kubelet deletes the slices of a driver that it has had no connection to for 30 s."""
    with disks.made(*with_disk("stays")) as pods:
        pods["stays"].await_running()
        disk, processes = pods["stays"].disk(), pods["stays"].containers()
        disks.daemon.kill()
        eventually(lambda: disks.slices(DISK), [].__eq__, what="the kubelet deletes the slices")
        disks.daemon.start()
        disks.await_count(DISK, 3)
        disks.restart_kubelet(DISK, 3)
        disks.cluster.await_ready()
        with disks.made(*with_disk("later")) as others:
            others["later"].await_running()
            assert others["later"].disk() != disk
        assert pods["stays"].containers() == processes
        assert f"release {disk}" not in disks.hooks()
    disks.await_unprepared()


def test_after_a_reboot_the_same_pods_get_the_same_devices_again(disks: Bench) -> None:
    """Records outlive it, CDI specs do not, and hooks have to run again."""
    with disks.made(*with_disk("one"), *with_disk("other")) as pods:
        for pod in pods.values():
            pod.await_running()
        had = {name: pod.disk() for name, pod in pods.items()}
        before = {process for pod in pods.values() for process in pod.containers().values()}
        hooks, specs = disks.hooks(), disks.specs()
        reboot(disks)
        for name, pod in pods.items():
            eventually(
                lambda: {*pod.containers().values()},  # noqa: B023 -- called in this turn
                lambda processes: bool(processes - before),
                what=f"{name} runs again",
            )
            assert pod.disk() == had[name]
        again = disks.hooks()[len(hooks) :]
        assert {f"allocate {disk}" for disk in had.values()} <= set(again)
        assert disks.specs() == specs
    disks.await_unprepared()
    disks.daemon.stop()
    disks.daemon.view = None
    disks.daemon.start()
    disks.await_count(DISK, 3)


def reboot(bench: Bench) -> None:
    """End all that a reboot ends, and start it in what looks like another boot to the daemon."""
    bench.cluster.kill_kubelet()
    bench.daemon.kill()
    for process in bench.cluster.running().values():
        os.kill(process, signal.SIGKILL)
    for spec in bench.cluster.cdi_directory.glob("genericdp-claim_*.json"):
        spec.unlink()
    boot_id = bench.directory / "boot_id"
    boot_id.write_text(f"{uuid.uuid4()}\n")
    bench.daemon.view = View(directories={"proc/sys/kernel/random/boot_id": boot_id})
    bench.daemon.start()
    bench.cluster.start_kubelet()


def test_without_an_api_server_a_pod_that_ends_gives_its_device_back(disks: Bench) -> None:
    """And nothing is lost: what has changed meanwhile is published once there is one."""
    cluster = disks.cluster
    ends = with_disk("ends", restartPolicy="Never")
    with disks.made(*with_disk("stays"), *ends) as pods:
        for pod in pods.values():
            pod.await_running()
        used = {pod.disk() for pod in pods.values()}
        stays = disks.claim("stays")["metadata"]["uid"]
        slices, processes = disks.slice_uids(DISK), pods["stays"].containers()
        (of_ending,) = pods["ends"].containers().values()
        with without_api(cluster):
            loop.remove(next(n for n in (61, 62, 63) if f"loop{n}" not in used))
            os.kill(of_ending, signal.SIGKILL)
            eventually(disks.prepared, {stays}.__eq__, what="its device is given back")
        disks.await_count(DISK, 2)
        cluster.await_ready()
        assert (disks.slice_uids(DISK), pods["stays"].containers()) == (slices, processes)
        with disks.made(*with_disk("later")) as later:
            later["later"].await_running()
    disks.await_unprepared()


@contextmanager
def without_api(cluster: Cluster) -> Iterator[None]:
    """Have no one listen, as long as the context lasts and for a while."""
    until = time.monotonic() + API_GONE_SECONDS
    cluster.kill_control_plane()
    try:
        yield
        time.sleep(max(0, until - time.monotonic()))  # noqa: TID251 -- measures what happens at rest
    finally:
        cluster.start_control_plane()


def test_a_pod_that_was_deleted_by_force_has_its_device_to_itself_until_its_container_ends(
    bench: Bench,
) -> None:
    loop.add(61)
    bench.await_devices(DISK, ONLY)
    with bench.made(*with_disk("forced")) as pods:
        forced = pods["forced"]
        forced.await_running()
        with bench.made(*with_disk("next")) as later:
            # Once a minute from its start on, it unprepares what pods have that it has forgotten.
            bench.restart_kubelet(DISK, 1)
            eventually(
                lambda: {pod["metadata"]["name"] for pod in bench.cluster.pods()},
                lambda names: "forced" in names,
                what="the kubelet knows the pod again",
            )
            with undying(*forced.containers().values()):
                at_once = ("--force", "--grace-period=0", "--wait=false")
                objects = ("pod/forced", "resourceclaim/forced")
                bench.cluster.kubectl("delete", *at_once, *objects)
                eventually(lambda: bench.claim("forced"), {}.__eq__, what="no claim")
                bench.await_devices(DISK)
                the_status_says_who_has_it(bench)
                assert not later["next"].is_running()
            later["next"].await_running()
            assert later["next"].disk() == ONLY
            bench.await_devices(DISK, ONLY)
            eventually(lambda: bench.status()["goneClaims"], (0).__eq__, what="no claim is missing")
    bench.await_unprepared()
    hooks = ("allocate", "release", "allocate", "release")
    assert bench.hooks() == [f"{hook} {ONLY}" for hook in hooks]


@contextmanager
def undying(process: int) -> Iterator[None]:
    """Keep a container running, whatever the kubelet requests: what would end it hangs."""
    status = Path(f"/proc/{process}/status").read_text()
    shim = int(dict(line.split(":\t", 1) for line in status.splitlines())["PPid"])
    os.kill(shim, signal.SIGSTOP)
    try:
        yield
        assert Path(f"/proc/{process}").exists()
    finally:
        os.kill(shim, signal.SIGCONT)


def the_status_says_who_has_it(bench: Bench) -> None:
    status = bench.status()
    (disks,) = (resource for resource in status["resources"] if resource["name"] == DISK)
    (only,) = disks["devices"]
    assert (status["goneClaims"], disks["allocatable"]) == (1, 0)
    (holder,) = only["holders"]
    assert (holder["share"], holder["holder"]) == (ONLY, "claim default/forced")
