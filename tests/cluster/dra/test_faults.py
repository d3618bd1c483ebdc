"""Claims are prepared and given back while kubelet, daemon, API server or boot are missing."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.bench import DRIVER
from tests.cluster.dra.configs import COUNTED, DISK, FUSE
from tests.cluster.dra.pods import Manifest, Pod, apply, claim, container, delete, pod, request
from tests.e2e.cluster import loop
from tests.e2e.cluster.listing import PodResources
from tests.e2e.cluster.numa import View
from tests.e2e.cluster.pods import Pod as StaticPod
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.cluster.cluster import Cluster
    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

API_GONE_SECONDS = float(os.environ.get("API_GONE_SECONDS", "5"))
"""How long no one listens: see docs/development/e2e.md."""
STRIDE = 1 if "KILLED_AT_EVERY_STEP" in os.environ else 2
DISK_CLASS = "disk.example.com"
DISKS = range(60, 70)
"""Loop devices that are plugged in."""
_REGISTERED = f"the DRA driver {DRIVER} is registered"
_NOT_REGISTERED = f"DRA driver {DRIVER} is not registered"
"""As the kubelet says."""


@pytest.fixture
def disks(bench: Bench) -> Iterator[None]:
    """Plug in ten."""
    for number in DISKS:
        loop.add(number)
    bench.await_count(DISK, len(DISKS))
    yield
    loop.remove_all()


def with_disk(name: str, **more: object) -> tuple[Manifest, Manifest]:
    """Give a claim, and a pod that has it; ``more`` is of the pod's spec."""
    main = container(claims=[{"name": "devices"}])
    made = pod(name, main, claims={"devices": {"resourceClaimName": name}})
    made["spec"] |= more
    return claim(name, request("disk", DISK_CLASS)), made


def disk_of(entry: Pod) -> str:
    """Give the one disk that its container has; its environment names the same."""
    saw = entry.saw()
    (disk,) = (node.removeprefix("/dev/") for node in saw.nodes if "loop" in node)
    assert saw.env["DISKS"] == disk
    return disk


def uid_of(bench: Bench, name: str) -> str:
    return str(bench.claim(name)["metadata"]["uid"])


def test_a_kubelet_that_restarts_has_the_slices_again_and_pods_do_not_notice(
    bench: Bench, disks: None
) -> None:
    with bench.made(*with_disk("stays")) as pods:
        stays = pods["stays"]
        stays.await_running()
        processes = stays.containers()
        bench.restart_kubelet(DISK, len(DISKS))
        bench.await_count(FUSE, 40)
        bench.cluster.await_ready()
        with bench.made(*with_disk("later")) as later:
            later["later"].await_running()
            assert disk_of(later["later"]) != disk_of(stays)
        assert stays.containers() == processes
    bench.await_unprepared()


class Kills:
    """Starts the daemon so that it kills itself at a step, and sees whether it does."""

    def __init__(self, bench: Bench) -> None:
        self._daemon = bench.daemon
        self._usual = bench.daemon.program
        self._armed = bench.directory / "armed"
        self._armed.mkdir(exist_ok=True)

    def start(self, step: int = 0) -> None:
        """Start it, and wait until the kubelet has taken it; without a step it is not killed."""
        words = (sys.executable, "-m", "tests.cluster.dra.killed", str(self._armed), str(step))
        self._daemon.program = words if step else self._usual
        before = self._daemon.log().count(_REGISTERED)
        self._daemon.start()
        eventually(
            lambda: self._daemon.log().count(_REGISTERED),
            lambda times: times > before,
            what="the driver is registered",
        )

    def happens(self, uid: str, act: Callable[[], object], otherwise: Callable[[], bool]) -> bool:
        """Have something done for a claim; show whether it is killed then, or ``otherwise``."""
        (self._armed / uid).touch()
        act()

        def outcome() -> str:
            return "killed" if self._daemon.was_killed() else "done" if otherwise() else ""

        seen = eventually(outcome, what="it is killed, or all is done")
        (self._armed / uid).unlink()
        return seen == "killed"


def test_a_daemon_that_is_killed_at_any_step_loses_no_claim_and_gives_no_device_twice(
    bench: Bench, disks: None
) -> None:
    """In Prepare and in Unprepare, each time while it works on another pod's claim.

    One of the pods ends while there is not a daemon at all.
    """
    kills, made = Kills(bench), list[Manifest]()
    try:
        pods = killed_in_prepare(bench, kills, made)
        uids = {uid_of(bench, name) for name in pods}
        for entry in pods.values():
            entry.await_running()
        disks_of = {disk_of(each_pod) for each_pod in pods.values()}
        assert len(pods) > 2
        assert len(disks_of) == len(pods), "no device twice"
        assert bench.prepared() == bench.specs() == uids
        assert set(bench.hooks()) == {f"allocate {disk}" for disk in disks_of}
        bench.daemon.stop()
        _, first = pods.popitem()
        end_without_daemon(bench, first)
        ended = killed_in_unprepare(bench, kills, pods)
        assert len(ended) > 1
        for entry in (first, *ended):
            entry.await_gone()
    finally:
        delete(bench.cluster, *made)
    bench.await_unprepared()
    assert {f"release {disk}" for disk in disks_of} <= set(bench.hooks())


def killed_in_prepare(bench: Bench, kills: Kills, made: list[Manifest]) -> dict[str, Pod]:
    """Start pods until one is there for each step; give them. What is made is added to a list."""
    pods: dict[str, Pod] = {}
    bench.daemon.stop()
    for step in count(1, STRIDE):
        name = f"killed-{step}"
        wanted, user = with_disk(name)
        made += wanted, user
        apply(bench.cluster, wanted)
        pods[name] = Pod(bench.cluster, name)
        kills.start(step)
        begin = partial(apply, bench.cluster, user)
        if not kills.happens(uid_of(bench, name), begin, pods[name].is_running):
            break
    bench.daemon.stop()
    kills.start()
    return pods


def end_without_daemon(bench: Bench, entry: Pod) -> None:
    """End a pod, and wait until the kubelet finds no one to take back what it had."""
    known = len(bench.cluster.log("kubelet"))
    entry.delete()
    eventually(
        lambda: bench.cluster.log("kubelet")[known:],
        lambda log: _NOT_REGISTERED in log,
        what="the kubelet cannot unprepare the claim",
    )
    assert uid_of(bench, entry.name) in bench.prepared()


def killed_in_unprepare(bench: Bench, kills: Kills, pods: Mapping[str, Pod]) -> list[Pod]:
    """End pods until one is there for each step; give those."""
    ended: list[Pod] = []
    for step, (name, entry) in zip(count(1, STRIDE), pods.items(), strict=False):
        ended.append(entry)
        kills.start(step)
        if not kills.happens(uid_of(bench, name), entry.delete, entry.is_gone):
            bench.daemon.stop()
            break
    kills.start()
    return ended


def test_after_a_reboot_the_same_pods_get_the_same_devices_again(bench: Bench, disks: None) -> None:
    """Records outlive it, CDI specs do not, and hooks have to run again."""
    names = ("one", "other")
    with bench.made(*(made for name in names for made in with_disk(name))) as pods:
        for item in pods.values():
            item.await_running()
        disks_of = {name: disk_of(each_pod) for name, each_pod in pods.items()}
        before = {name: entry.containers() for name, entry in pods.items()}
        hooks = bench.hooks()
        reboot(bench)
        for name, item in pods.items():
            eventually(
                item.containers,
                partial(is_another, before[name]),
                what=f"{name} runs again",
            )
            assert disk_of(item) == disks_of[name]
        again = bench.hooks()[len(hooks) :]
        assert {f"allocate {disk}" for disk in disks_of.values()} <= set(again)
        assert bench.specs() == {uid_of(bench, name) for name in names}
    bench.await_unprepared()
    end_played_boot(bench)
    bench.await_count(DISK, len(DISKS))


def reboot(bench: Bench) -> None:
    """End all that a reboot ends, and start it in what looks like another boot to the daemon."""
    power_off(bench)
    boot_daemon(bench)
    bench.cluster.start_kubelet()


def power_off(bench: Bench) -> None:
    """End all of the node that a reboot ends."""
    bench.cluster.kill_kubelet()
    bench.daemon.kill()
    for process in bench.cluster.running().values():
        os.kill(process, signal.SIGKILL)
    for uid in bench.specs():
        bench.spec_of(uid).unlink()


def boot_daemon(bench: Bench) -> None:
    """Start the daemon in what looks like another boot to it."""
    boot_id = bench.directory / "boot_id"
    boot_id.write_text(f"{uuid.uuid4()}\n")
    bench.daemon.view = View(directories={"proc/sys/kernel/random/boot_id": boot_id})
    bench.daemon.start()


def end_played_boot(bench: Bench) -> None:
    """Have the daemon see the boot that it is in."""
    bench.daemon.stop()
    bench.daemon.view = None
    bench.daemon.start()


def is_another(before: Mapping[str, int], found: Mapping[str, int]) -> bool:
    return bool(found) and not found.items() & before.items()


def test_without_an_api_server_nothing_is_lost_and_the_device_plugin_does_not_notice(
    bench: Bench, disks: None
) -> None:
    """A pod that ends meanwhile gives its device back: no API server is needed for that."""
    cluster = bench.cluster
    loop.add(71)
    cluster.await_allocatable(COUNTED, 1)
    ends = with_disk("ends", restartPolicy="Never")
    with bench.made(*with_disk("stays"), *ends) as pods:
        for entry in pods.values():
            entry.await_running()
        used = {disk_of(each_pod) for each_pod in pods.values()}
        stays = uid_of(bench, "stays")
        slices, processes = bench.slice_uids(DISK), pods["stays"].containers()
        of_ending = pods["ends"].containers()["main"]
        with without_api(cluster):
            loop.remove(next(disk for disk in DISKS if f"loop{disk}" not in used))
            os.kill(of_ending, signal.SIGKILL)
            eventually(bench.prepared, {stays}.__eq__, what="its device is given back")
            the_device_plugin_works(bench)
        bench.await_count(DISK, len(DISKS) - 1)
        cluster.await_ready()
        assert (bench.slice_uids(DISK), pods["stays"].containers()) == (slices, processes)
        cluster.await_allocatable(COUNTED, 2)
        with bench.made(*with_disk("later")) as later:
            later["later"].await_running()
    bench.await_unprepared()


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


def the_device_plugin_works(bench: Bench) -> None:
    """Plug in another device, and start a pod that gets one, without an API server."""
    loop.add(72)
    plugin = PodResources(bench.cluster.directory)
    eventually(
        lambda: plugin.allocatable().get(COUNTED),
        frozenset({"loop71", "loop72"}).__eq__,
        what="the device plugin lists another device",
    )
    with StaticPod(bench.cluster, "static", {COUNTED: 1}) as counted:
        (node,) = (node for node in counted.container().saw().nodes if "loop" in node)
    assert node in {"/dev/loop71", "/dev/loop72"}
    bench.daemon.check_alive()
