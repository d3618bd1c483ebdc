"""A device that fails under a pod: its status, and eviction."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.dra.configs import STICK
from tests.cluster.dra.pods import claim, request, user
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench
    from tests.cluster.dra.pods import Manifest, Pod

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
