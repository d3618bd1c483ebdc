"""A device that fails or goes under a pod: its status, eviction, and what a Deployment does."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.dra.configs import STICK
from tests.cluster.dra.pods import (
    Pod,
    apply,
    claim,
    container,
    delete,
    pod,
    request,
    template,
    user,
)
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench
    from tests.cluster.dra.pods import Manifest

pytestmark = pytest.mark.cluster


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
def sticks(bench: Bench) -> Bench:
    """Plug in two."""
    for number in (80, 81):
        loop.add(number)
    bench.await_devices(STICK, "loop80", "loop81")
    return bench


def with_stick(name: str, **more: Any) -> tuple[Manifest, Manifest]:
    """Give a claim for a stick, and a pod that has it; ``more`` is of the request."""
    return user(claim(name, request("any", "stick.example.com", **more)))


def await_health(entry: Pod, health: str) -> None:
    """Wait until a pod's status shows this of its device."""

    def shown() -> list[str]:
        (status,) = entry.found()["status"]["containerStatuses"]
        claims: list[dict[str, Any]] = status.get("allocatedResourcesStatus", [])
        return [device["health"] for claimed in claims for device in claimed["resources"]]

    eventually(shown, [health].__eq__, what=f"its status shows it as {health}")


@pytest.mark.clusters("1.37.0", "1.36.3")
def test_a_probe_that_fails_is_in_the_status_of_a_pod_and_evicts_those_that_do_not_tolerate_it(
    sticks: Bench,
) -> None:
    # Without an effect, a toleration is for the scheduler only.
    tolerant = {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}
    with sticks.made(*with_stick("stays", **tolerant)) as pods:
        stays = pods["stays"]
        stays.await_running()
        (name,) = sticks.allocated("stays")
        await_health(stays, "Healthy")
        began = time.monotonic()
        with broken(sticks, name):
            await_health(stays, "Unhealthy")
            print(f"Unhealthy in the pod's status after {time.monotonic() - began:.1f} s")
        await_health(stays, "Healthy")
        with sticks.made(*with_stick("goes")) as others, ExitStack() as ends:
            others["goes"].await_running()
            (other,) = sticks.allocated("goes")
            began = time.monotonic()
            with broken(sticks, other):
                others["goes"].await_gone()
                print(f"evicted after {time.monotonic() - began:.1f} s")
                late = ends.enter_context(sticks.made(*with_stick("late")))["late"]
                late.await_pending("cannot allocate all claims")
            late.await_running()
        assert stays.is_running()
    sticks.await_unprepared()


@pytest.mark.clusters("1.37.0", "1.36.3")
def test_neither_plain_limits_nor_a_restart_of_the_daemon_evict_a_pod(sticks: Bench) -> None:
    plain = pod("plain", container(limits={STICK: 1}))
    with sticks.made(plain, *with_stick("goes")) as pods:
        before = pods["plain"].await_running()
        pods["goes"].await_running()
        for _ in range(2):
            sticks.daemon.kill()
            sticks.daemon.start()
            sticks.await_count(STICK, 2)
        await_health(pods["goes"], "Healthy")
        with broken(sticks, "loop80"), broken(sticks, "loop81"):
            pods["goes"].await_gone()
            assert pods["plain"].is_running()
        assert pods["plain"].found()["metadata"]["uid"] == before["metadata"]["uid"]
    sticks.await_unprepared()


@pytest.mark.clusters("1.37.0", "1.36.3")
def test_the_pod_follows_the_stick(bench: Bench) -> None:
    loop.add(80)
    bench.await_devices(STICK, "loop80")
    container_of_stick = container(claims=[{"name": "stick"}])
    claims = {"stick": {"resourceClaimTemplateName": "stick"}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "follows", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "follows"}},
            "template": {
                "metadata": {"labels": {"app": "follows"}},
                "spec": pod("follows", container_of_stick, claims=claims)["spec"],
            },
        },
    }

    def stick() -> str:
        """Give the device of the pod that runs."""
        pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dfollows"
        for found in bench.cluster.api.items(pods):
            replica = Pod(bench.cluster, found["metadata"]["name"])
            if replica.is_running() and "deletionTimestamp" not in found["metadata"]:
                return replica.saw().env["STICK"]
        return ""

    with bench.made(template("stick", request("any", "stick.example.com")), deployment):
        eventually(stick, "loop80".__eq__, what="it has the only one")
        loop.add(81)
        began = time.monotonic()
        loop.remove(80)
        eventually(stick, "loop81".__eq__, what="it runs again with the other one")
        seconds = time.monotonic() - began
        print(f"the pod followed the stick in {seconds:.1f} s")
        assert seconds > 30, "hardware that comes back within 30 s evicts no pod"
    bench.await_unprepared()


@pytest.mark.clusters("1.37.0")  # that has DeviceTaintRules
def test_a_rule_with_the_names_of_the_status_drains_one_device(sticks: Bench) -> None:
    with sticks.made(*with_stick("drained"), *with_stick("stays")) as pods:
        for each_pod in pods.values():
            each_pod.await_running()
        (resource,) = (found for found in sticks.status()["resources"] if found["name"] == STICK)
        (names,) = (
            device["dra"]["devices"]
            for device in resource["devices"]
            if any(holder["pods"] == ["default/drained"] for holder in device["holders"])
        )
        rule = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "maintenance"},
            "spec": {
                "deviceSelector": {**resource["dra"], "device": names[0]},
                "taint": {"key": "example.com/maintenance", "effect": "NoExecute"},
            },
        }
        processes = pods["stays"].containers()
        apply(sticks.cluster, rule)
        try:
            pods["drained"].await_gone()
            with sticks.made(*with_stick("next")) as others:
                others["next"].await_pending("cannot allocate all claims")
                delete(sticks.cluster, rule)
                others["next"].await_running()
                assert sticks.allocated("next") == names
        finally:
            delete(sticks.cluster, rule)
        assert pods["stays"].containers() == processes
    sticks.await_unprepared()


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
