"""A device that fails under a pod: status, eviction, and a Deployment that continues elsewhere."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.dra.bench import DRIVER
from tests.cluster.dra.configs import STICK
from tests.cluster.dra.pods import Pod, claim, container, pod, request, template
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench
    from tests.cluster.dra.pods import Manifest

pytestmark = pytest.mark.cluster

WITH_TAINTS = pytest.mark.clusters("1.37.0", "1.36.3")
STICKS = "stick.example.com"
# Without an effect, a toleration is for the scheduler only.
TOLERANT = {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}


@contextmanager
def broken(bench: Bench, name: str) -> Iterator[None]:
    """Let the probe of a device fail."""
    flag = bench.directory / f"broken-{name}"
    flag.touch()
    try:
        yield
    finally:
        flag.unlink()


@pytest.fixture
def sticks(bench: Bench) -> Iterator[Bench]:
    """Plug in two."""
    for number in (80, 81):
        loop.add(number)
    bench.await_devices(STICK, "loop80", "loop81")
    yield bench
    loop.remove_all()


def with_stick(name: str, **more: Any) -> tuple[Manifest, Manifest]:
    """Give a claim for a stick, and a pod that has it."""
    main = container(claims=[{"name": "stick"}])
    made = pod(name, main, claims={"stick": {"resourceClaimName": name}})
    return claim(name, request("any", STICKS, **more)), made


def health_of(entry: Pod) -> list[dict[str, Any]]:
    """Give what a pod's status shows of its devices."""
    (status,) = entry.found()["status"]["containerStatuses"]
    return [
        device
        for claimed in status.get("allocatedResourcesStatus", ())
        for device in claimed["resources"]
    ]


@WITH_TAINTS
def test_a_probe_that_fails_is_in_the_status_of_a_pod_and_evicts_those_that_do_not_tolerate_it(
    sticks: Bench,
) -> None:
    bench = sticks
    with ExitStack() as ends:
        stays = ends.enter_context(bench.made(*with_stick("stays", **TOLERANT)))["stays"]
        stays.await_running()
        (name,) = bench.allocated("stays")
        is_healthy = lambda found: [device["health"] for device in found] == ["Healthy"]  # noqa: E731
        eventually(lambda: health_of(stays), is_healthy, what="its status shows it as Healthy")
        began = time.monotonic()
        with broken(bench, name):
            eventually(
                lambda: health_of(stays),
                lambda found: [device["health"] for device in found] == ["Unhealthy"],
                what="its status shows it as Unhealthy",
            )
            print(f"Unhealthy in the pod's status after {time.monotonic() - began:.1f} s")
            assert stays.is_running()
        eventually(lambda: health_of(stays), is_healthy, what="it has recovered")
        goes = ends.enter_context(bench.made(*with_stick("goes")))["goes"]
        goes.await_running()
        (other,) = bench.allocated("goes")
        assert other != name
        began = time.monotonic()
        with broken(bench, other):
            eventually(goes.is_gone, what="it is evicted")
            print(f"evicted after {time.monotonic() - began:.1f} s")
            late = ends.enter_context(bench.made(*with_stick("late")))["late"]
            late.await_pending("cannot allocate all claims")
        late.await_running()
        assert stays.is_running()


@WITH_TAINTS
def test_a_pod_with_plain_limits_stays_on_a_device_that_fails(sticks: Bench) -> None:
    plain = pod("plain", container(limits={STICK: 1}))
    with sticks.made(plain, *with_stick("goes")) as pods:
        for entry in pods.values():
            entry.await_running()
        with broken(sticks, "loop80"), broken(sticks, "loop81"):
            eventually(pods["goes"].is_gone, what="the one with a claim is evicted")
            assert pods["plain"].is_running()
            assert health_of(pods["plain"]) == []


@WITH_TAINTS
def test_the_pod_follows_the_stick(bench: Bench) -> None:
    loop.add(80)
    bench.await_devices(STICK, "loop80")
    made = pod(
        "follows",
        container(claims=[{"name": "stick"}]),
        claims={"stick": {"resourceClaimTemplateName": "stick"}},
    )
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "follows", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "follows"}},
            "template": {"metadata": {"labels": {"app": "follows"}}, "spec": made["spec"]},
        },
    }

    def stick() -> str:
        """Give the device of the pod that runs."""
        pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dfollows"
        for found in bench.cluster.api.items(pods):
            entry = Pod(bench.cluster, found["metadata"]["name"])
            if entry.is_running() and "deletionTimestamp" not in found["metadata"]:
                return entry.saw().env["STICK"]
        return ""

    with bench.made(template("stick", request("any", STICKS)), deployment):
        eventually(stick, "loop80".__eq__, what="it has the only one")
        loop.add(81)
        began = time.monotonic()
        loop.remove(80)
        eventually(stick, "loop81".__eq__, what="it runs again with the other one")
        seconds = time.monotonic() - began
        print(f"the pod followed the stick in {seconds:.1f} s")
        assert seconds > 30
    loop.remove_all()


@WITH_TAINTS
def test_a_restarted_daemon_evicts_no_pod(sticks: Bench) -> None:
    with sticks.made(*with_stick("stays")) as pods:
        running = pods["stays"].await_running()
        for _ in range(2):
            sticks.daemon.kill()
            sticks.daemon.start()
            sticks.await_count(STICK, 2)
        eventually(
            lambda: health_of(pods["stays"]),
            lambda found: [device["health"] for device in found] == ["Healthy"],
            what="its health is known again",
        )
        assert pods["stays"].found()["metadata"]["uid"] == running["metadata"]["uid"]
        taints = [
            taint
            for slice_ in sticks.slices(STICK)
            for device in slice_["spec"]["devices"]
            for taint in device.get("taints", ())
        ]
        assert taints == []
        assert all(slice_["spec"]["driver"] == DRIVER for slice_ in sticks.slices(STICK))


@pytest.mark.clusters("1.34.4")
def test_where_the_cluster_drops_taints_a_device_that_fails_leaves_its_slice(
    sticks: Bench,
) -> None:
    with broken(sticks, "loop80"):
        sticks.await_devices(STICK, "loop81")
        (slice_,) = sticks.slices(STICK)
        assert [device["name"] for device in slice_["spec"]["devices"]] == ["loop81"]
        eventually(
            lambda: sticks.status()["apiServerLacks"],
            lambda text: "drops taints of devices" in text,
            what="the status says what the API server lacks",
        )
    sticks.await_devices(STICK, "loop80", "loop81")


def test_each_device_of_several_claims_and_requests_is_in_the_container(sticks: Bench) -> None:
    loop.add(82)
    sticks.await_count(STICK, 3)
    uses = container(claims=[{"name": "arms"}, {"name": "eye"}])
    first = container("first", claims=[{"name": "arms"}], once=True)
    both = pod(
        "robot",
        uses,
        init=[first],
        claims={
            "arms": {"resourceClaimTemplateName": "pair"},
            "eye": {"resourceClaimName": "camera"},
        },
    )
    pair = template("pair", request("left", STICKS), request("right", STICKS))
    with sticks.made(pair, claim("camera", request("only", STICKS)), both) as pods:
        pods["robot"].await_running()
        # A template's claim is called as in the pod, the other one by its own name.
        for path in ("arms/left", "arms/right", "camera/only"):
            assert pods["robot"].sees("test", "-b", f"/dev/{path}") == ""
        numbers = {
            pods["robot"].sees("stat", "-c", "%t:%T", f"/dev/{path}").strip()
            for path in ("arms/left", "arms/right", "camera/only")
        }
        assert len(numbers) == 3
