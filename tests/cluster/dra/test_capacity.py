"""Pods that share a device by capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.configs import PART
from tests.cluster.dra.pods import Manifest, claim, container, pod, request
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench

pytestmark = [pytest.mark.cluster, pytest.mark.clusters("1.37.0", "1.36.3")]

ONLY = "loop74"


@pytest.fixture
def part(bench: Bench) -> Iterator[None]:
    """Plug in the only one."""
    loop.add(74)
    bench.await_devices(PART, ONLY)
    yield
    loop.remove_all()


def user(name: str, **sectors: str) -> tuple[Manifest, Manifest]:
    """Give a pod, and its claim with a request for each of these amounts."""
    requests = [
        request(key, "part.example.com", capacity={"requests": {"sectors": amount}})
        for key, amount in sectors.items()
    ]
    main = container(claims=[{"name": "devices"}])
    made = pod(name, main, claims={"devices": {"resourceClaimName": name}})
    return claim(name, *requests), made


def slices_of(bench: Bench) -> set[str]:
    return {slice_["metadata"]["uid"] for slice_ in bench.slices(PART)}


def restart(bench: Bench) -> None:
    """Restart kubelet and daemon, and wait until they have found each other."""
    before = slices_of(bench)
    bench.daemon.stop()
    bench.cluster.kill_kubelet()
    bench.cluster.start_kubelet()
    bench.cluster.await_ready()
    bench.daemon.start()
    eventually(
        lambda: slices_of(bench),
        lambda uids: bool(uids) and not uids & before,
        what="there are other slices than before",
    )
    bench.await_devices(PART, ONLY)


def test_a_slice_is_stored_as_it_was_sent(bench: Bench, part: None) -> None:
    ((device,),) = (slice_["spec"]["devices"] for slice_ in bench.slices(PART))
    policy = {"default": "4k", "validRange": {"min": "4k", "step": "4k"}}
    assert device["allowMultipleAllocations"] is True
    assert device["capacity"] == {"sectors": {"value": "16k", "requestPolicy": policy}}
    assert "changes or drops fields" not in bench.daemon.log()
    assert bench.status()["apiServerLacks"] == ""


def test_two_pods_share_a_device_by_size_and_a_third_waits_until_there_is_enough(
    bench: Bench, part: None
) -> None:
    with bench.made(*user("first", a="4k", b="1"), *user("second", a="5k")) as pods:
        for name, sectors in (("first", "4000"), ("second", "8000")):
            pods[name].await_running()
            saw = pods[name].saw()
            assert (saw.env["SECTORS"], saw.nodes["/dev/a"]) == (sectors, "b 7 4a")
        assert pods["first"].saw().nodes["/dev/b"] == "b 7 4a"
        processes = {name: pods[name].containers() for name in pods}
        with bench.made(*user("third", a="8k")) as later:
            why = later["third"].await_pending("cannot allocate all claims")
            assert bench.hooks() == [f"allocate {ONLY}"] * 2
            prepared, specs = bench.prepared(), bench.specs()
            assert len(prepared) == 2
            restart(bench)
            assert (bench.prepared(), bench.specs()) == (prepared, specs)
            assert later["third"].await_pending("cannot allocate all claims") == why
            assert {name: pods[name].containers() for name in pods} == processes
            pods["first"].delete()
            later["third"].await_running()
            assert later["third"].saw().env["SECTORS"] == "8000"
            held_by = {claim_name for _, claim_name in bench.used()}
            assert held_by == {"second", "third"}
    bench.await_unprepared()
    assert bench.hooks() == [*[f"allocate {ONLY}"] * 3, f"release {ONLY}"]
    with bench.made(*user("all", a="16k")) as pods:
        pods["all"].await_running()
        assert pods["all"].saw().env["SECTORS"] == "16000"
    bench.await_unprepared()
