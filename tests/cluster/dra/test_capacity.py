"""Pods that share a device by capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.configs import PART
from tests.cluster.dra.pods import claim, request, user
from tests.e2e.cluster import loop

if TYPE_CHECKING:
    from tests.cluster.dra.bench import Bench
    from tests.cluster.dra.pods import Manifest

pytestmark = [pytest.mark.cluster, pytest.mark.clusters("1.37.0", "1.36.3")]

ONLY = "loop74"


def with_part(name: str, **sectors: str) -> tuple[Manifest, Manifest]:
    """Give a pod, and its claim with a request for each of these amounts."""
    requests = [
        request(key, "part.example.com", capacity={"requests": {"sectors": amount}})
        for key, amount in sectors.items()
    ]
    return user(claim(name, *requests))


def test_two_pods_share_a_device_by_size_and_a_third_waits_until_there_is_enough(
    bench: Bench,
) -> None:
    loop.add(74)
    bench.await_devices(PART, ONLY)
    ((device,),) = (slice_["spec"]["devices"] for slice_ in bench.slices(PART))
    policy = {"default": "4k", "validRange": {"min": "4k", "step": "4k"}}
    assert device["capacity"] == {"sectors": {"value": "16k", "requestPolicy": policy}}
    assert bench.status()["apiServerLacks"] == ""
    with bench.made(*with_part("first", a="4k", b="1"), *with_part("second", a="5k")) as pods:
        for name, sectors in (("first", "4000"), ("second", "8000")):
            pods[name].await_running()
            saw = pods[name].saw()
            assert (saw.env["SECTORS"], saw.nodes["/dev/a"]) == (sectors, "b 7 4a")
        assert pods["first"].saw().nodes["/dev/b"] == "b 7 4a"
        with bench.made(*with_part("third", a="8k")) as later:
            later["third"].await_pending("cannot allocate all claims")
            assert bench.hooks() == [f"allocate {ONLY}"] * 2
            pods["first"].delete()
            later["third"].await_running()
            assert later["third"].saw().env["SECTORS"] == "8000"
    bench.await_unprepared()
    assert bench.hooks() == [*[f"allocate {ONLY}"] * 3, f"release {ONLY}"]
