"""A prepared claim holds its hardware, whatever happens to pod, device and kubelet."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.configs import DISK, IMAGE
from tests.cluster.dra.pods import Pod, claim, container, pod, request
from tests.cluster.dra.test_faults import (
    boot_daemon,
    disk_of,
    end_played_boot,
    power_off,
    uid_of,
    with_disk,
)
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

ONLY = "loop61"
GONE = "which the API server no longer has: waiting for the kubelet to unprepare it"


@pytest.fixture
def disk(bench: Bench) -> Iterator[None]:
    """Plug in the only one."""
    loop.add(61)
    bench.await_devices(DISK, ONLY)
    yield
    loop.remove_all()


def delete_by_force(bench: Bench, name: str) -> None:
    """Delete a pod and its claim so that the API has neither, whatever still runs.

    Until it has unprepared a claim, a kubelet prepares no other one of that name.
    """
    objects = (f"pod/{name}", f"resourceclaim/{name}")
    bench.cluster.kubectl("delete", "--force", "--grace-period=0", "--wait=false", *objects)
    eventually(lambda: bench.claim(name), {}.__eq__, what="the API no longer has the claim")


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


def test_a_pod_that_was_deleted_by_force_has_its_device_to_itself_until_its_container_ends(
    bench: Bench, disk: None
) -> None:
    with ExitStack() as ends:
        forced = ends.enter_context(bench.made(*with_disk("forced")))["forced"]
        forced.await_running()
        restart_kubelet(bench)
        with undying(forced.containers()["main"]):
            delete_by_force(bench, "forced")
            later = ends.enter_context(bench.made(*with_disk("next")))["next"]
            bench.await_devices(DISK)
            the_status_says_who_has_it(bench)
            assert not later.is_running()
        later.await_running()
        assert disk_of(later) == ONLY
        assert bench.prepared() == bench.specs() == {uid_of(bench, "next")}
        bench.await_devices(DISK, ONLY)
        eventually(lambda: bench.status()["goneClaims"], (0).__eq__, what="no claim is missing")
        assert bench.hooks() == [f"{hook} {ONLY}" for hook in ("allocate", "release", "allocate")]
    bench.await_unprepared()


def restart_kubelet(bench: Bench) -> None:
    """Have it unprepare by itself in a minute at the earliest what pods have that it has forgotten.

    It does so once a minute from its start on, although their containers may run.
    """
    bench.restart_kubelet(DISK, 1)
    eventually(
        lambda: {each_pod["metadata"]["name"] for each_pod in bench.cluster.pods()},
        lambda names: "forced" in names,
        what="the kubelet knows the pod again",
    )


def the_status_says_who_has_it(bench: Bench) -> None:
    status = bench.status()
    (disks,) = (resource for resource in status["resources"] if resource["name"] == DISK)
    (only,) = disks["devices"]
    assert (status["goneClaims"], disks["allocatable"]) == (1, 0)
    (holder,) = only["holders"]
    assert (holder["share"], holder["holder"]) == (ONLY, "claim default/forced")
    assert holder["since"] < status["time"]
    assert f"claim default/forced has it, {GONE}" in only["reason"]


def test_a_container_never_gets_other_hardware_that_is_in_the_place_of_its_own(
    bench: Bench, tmp_path: Path
) -> None:
    mine, other = image_in(tmp_path, "image-mine"), image_in(tmp_path, "image-other")
    main = container(claims=[{"name": "devices"}])
    user = pod("user", main, claims={"devices": {"resourceClaimName": "user"}})
    wanted = claim("user", request("image", "image.example.com"))
    with ExitStack() as ends:
        with loop.plugged(75, mine):
            bench.await_devices(IMAGE, "mine")
            first = ends.enter_context(bench.made(wanted, user))["user"]
            first.await_running()
            assert content_of(first, bench) == "image-mine"
            uid = uid_of(bench, "user")
            assert bench.specs() == {uid}
        eventually(bench.specs, set().__eq__, what="there is no CDI spec without the device")
        bench.daemon.stop()
        with loop.plugged(75, other):
            bench.daemon.start()
            bench.await_devices(IMAGE, "other")
            os.kill(first.containers()["main"], signal.SIGKILL)
            await_held_up(first, uid)
            assert (bench.prepared(), bench.specs()) == ({uid}, set())
        with loop.plugged(75, mine):
            eventually(first.containers, what="it runs again")
            assert content_of(first, bench) == "image-mine"
    bench.await_unprepared()


def image_in(directory: Path, name: str) -> Path:
    image = directory / name
    image.write_bytes(name.encode().ljust(8192, b"\n"))
    return image


def content_of(entry: Pod, bench: Bench) -> str:
    """Give what a container reads from its device."""
    words = ("exec", entry.name, "--", "/bin/busybox", "cat", "/dev/image")
    return bench.cluster.kubectl(*words).strip()


def await_held_up(entry: Pod, uid: str) -> None:
    """Wait until a container cannot be started for want of the claim's CDI device."""

    def waits() -> str:
        (main,) = entry.found()["status"]["containerStatuses"]
        return str(main["state"].get("waiting", {}).get("message", ""))

    eventually(
        waits,
        lambda said: "CDI" in said and uid in said,
        what="the container cannot be started",
    )


def test_what_a_kubelet_has_lost_is_held_until_an_administrator_releases_it(
    bench: Bench, disk: None
) -> None:
    with bench.made(*with_disk("lost")) as pods:
        pods["lost"].await_running()
        uid = uid_of(bench, "lost")
        process = pods["lost"].containers()["main"]
        bench.cluster.stop_kubelet()
        (bench.cluster.directory / "kubelet/dra_manager_state").unlink()
        delete_by_force(bench, "lost")
        bench.cluster.start_kubelet()
        bench.cluster.await_ready()
        eventually(
            bench.cluster.running,
            lambda running: process not in running.values(),
            what="the kubelet has ended the container that it no longer knows",
        )
        with bench.made(*with_disk("next")) as later:
            bench.await_devices(DISK)
            assert not later["next"].is_running()
            assert bench.prepared() == {uid}
            root = f"--kubelet-root={bench.cluster.directory}/kubelet"
            (listed,) = json.loads(bench.ask("claims", root, "-o", "json"))["claims"]
            assert (listed["uid"], listed["name"]) == (uid, "lost")
            assert listed["devices"] == [{"resource": DISK, "share": ONLY}]
            assert "Released." in bench.ask("claims", "release", uid, "--yes", root)
            later["next"].await_running()
            assert disk_of(later["next"]) == ONLY
    bench.await_unprepared()


def test_what_has_ended_in_the_api_while_the_node_was_off_is_free_after_the_boot(
    bench: Bench, disk: None
) -> None:
    """Without a word of the kubelet, which may have lost what it knew."""
    with bench.made(*with_disk("off")) as pods:
        pods["off"].await_running()
        power_off(bench)
        delete_by_force(bench, "off")
        boot_daemon(bench)
        bench.await_unprepared()
        assert bench.hooks() == [f"allocate {ONLY}", f"release {ONLY}"]
        bench.cluster.start_kubelet()
        bench.cluster.await_ready()
        with bench.made(*with_disk("next")) as later:
            later["next"].await_running()
            assert disk_of(later["next"]) == ONLY
    bench.await_unprepared()
    end_played_boot(bench)
    bench.await_devices(DISK, ONLY)
