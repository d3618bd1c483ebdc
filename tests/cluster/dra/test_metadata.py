"""Files in which the containers of a cluster read what their devices are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.dra.bench import DRIVER
from tests.cluster.dra.configs import DISK
from tests.cluster.dra.pods import claim, container, pod, request, template
from tests.e2e.cluster import loop

if TYPE_CHECKING:
    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

CLASS, INSIDE = "disk.example.com", "/var/run/kubernetes.io/dra-device-attributes"


def documents(text: str) -> list[dict[str, Any]]:
    """Give the documents of JSON that follow each other."""
    found, text = [], text.strip()
    while text:
        document, end = json.JSONDecoder().raw_decode(text)
        found.append(document)
        text = text[end:].strip()
    return found


def test_pods_with_a_claim_and_with_a_template_read_what_the_slice_has_of_their_devices(
    bench: Bench,
) -> None:
    numbers = {"own": 61, "made": 62}
    for number in numbers.values():
        loop.add(number)
    bench.await_devices(DISK, *(f"loop{number}" for number in numbers.values()))
    requests = {
        name: request("disk", CLASS, f'device.attributes["{DRIVER}"].number == {number}')
        for name, number in numbers.items()
    }
    main = container(claims=[{"name": "devices"}])
    own = pod("own", main, claims={"devices": {"resourceClaimName": "own"}})
    made = pod("made", main, claims={"devices": {"resourceClaimTemplateName": "made"}})
    made["spec"]["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000}
    objects = (claim("own", requests["own"]), template("made", requests["made"]), own, made)
    places = {"own": "resourceclaims/own", "made": "resourceclaimtemplates/devices"}
    with bench.made(*objects) as pods:
        for name, place in places.items():
            pods[name].await_running()
            path = f"{INSIDE}/{place}/disk/{DRIVER}-metadata.json"
            newest, older = documents(pods[name].sees("cat", path))
            assert newest["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
            assert older["apiVersion"] == "metadata.resource.k8s.io/v1alpha1"
            assert newest["requests"] == older["requests"]
            (device,) = newest["requests"][0]["devices"]
            assert device["name"] == f"loop{numbers[name]}"
            assert device["attributes"] == bench.devices(DISK)[device["name"]]
            assert newest.get("podClaimName") == (None if name == "own" else "devices")
            changing = f"echo >>{path} || echo refused"
            assert "refused" in pods[name].sees("sh", "-c", changing)
        assert len([*(bench.state / "metadata").iterdir()]) == 2
    bench.await_unprepared()
    assert [*(bench.state / "metadata").iterdir()] == []
    loop.remove_all()
