"""An administrator drains one device with the names that the status shows."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.dra.configs import DISK
from tests.cluster.dra.pods import apply, delete
from tests.cluster.dra.test_faults import disk_of, with_disk
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench

pytestmark = [pytest.mark.cluster, pytest.mark.clusters("1.37.0")]

DISKS = (61, 62)


@pytest.fixture
def disks(bench: Bench) -> Iterator[None]:
    """Plug in two."""
    for number in DISKS:
        loop.add(number)
    bench.await_devices(DISK, *(f"loop{number}" for number in DISKS))
    yield
    loop.remove_all()


def held_by(bench: Bench, pod: str) -> dict[str, str]:
    """Give what selects the device that a pod has, as the status shows it."""
    (disk,) = (found for found in bench.status()["resources"] if found["name"] == DISK)
    (device,) = (
        device
        for device in disk["devices"]
        for holder in device["holders"]
        if holder["pods"] == [f"default/{pod}"]
    )
    (name,) = device["dra"]["devices"]
    return {**disk["dra"], "device": name}


def rule(selector: dict[str, str]) -> dict[str, Any]:
    taint = {"key": "example.com/maintenance", "effect": "NoExecute"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "maintenance"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def test_a_rule_with_the_names_of_the_status_drains_one_device(bench: Bench, disks: None) -> None:
    with ExitStack() as ends:
        pods = ends.enter_context(bench.made(*with_disk("drained"), *with_disk("stays")))
        for pod in pods.values():
            pod.await_running()
        disk, processes = disk_of(pods["drained"]), pods["stays"].containers()
        drain = rule(held_by(bench, "drained"))
        assert drain["spec"]["deviceSelector"]["device"] == disk
        ends.callback(delete, bench.cluster, drain)
        apply(bench.cluster, drain)
        pods["drained"].await_gone()
        eventually(
            lambda: "allocation" in bench.claim("drained").get("status", {}),
            lambda is_allocated: not is_allocated,
            what="its claim is free",
        )
        later = ends.enter_context(bench.made(*with_disk("next")))["next"]
        later.await_pending("cannot allocate all claims")
        assert pods["stays"].containers() == processes
        delete(bench.cluster, drain)
        later.await_running()
        assert disk_of(later) == disk
    bench.await_unprepared()
