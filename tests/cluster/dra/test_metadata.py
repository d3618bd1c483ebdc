"""Files in which the containers of a cluster read what their devices are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.bench import DRIVER
from tests.cluster.dra.configs import DISK
from tests.cluster.dra.pods import claim, container, pod, request, template, user

if TYPE_CHECKING:
    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

INSIDE = "/var/run/kubernetes.io/dra-device-attributes"


def test_pods_with_a_claim_and_with_a_template_read_what_the_slice_has_of_their_devices(
    disks: Bench,
) -> None:
    asked = request("disk", "disk.example.com")
    by_template = {"devices": {"resourceClaimTemplateName": "made"}}
    made = pod("made", container(claims=[{"name": "devices"}]), claims=by_template)
    made["spec"]["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000}
    places = {"own": "resourceclaims/own", "made": "resourceclaimtemplates/devices"}
    with disks.made(*user(claim("own", asked)), template("made", asked), made) as pods:
        for name, place in places.items():
            pods[name].await_running()
            path = f"{INSIDE}/{place}/disk/{DRIVER}-metadata.json"
            # Two documents follow each other, with the newest version first.
            newest, _ = json.JSONDecoder().raw_decode(pods[name].sees("cat", path))
            assert newest["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
            (device,) = newest["requests"][0]["devices"]
            assert device["name"] == pods[name].disk()
            assert device["attributes"] == disks.devices(DISK)[device["name"]]
            assert newest.get("podClaimName") == (None if name == "own" else "devices")
            changing = f"echo >>{path} || echo refused"
            assert "refused" in pods[name].sees("sh", "-c", changing)
    disks.await_unprepared()
    assert [*(disks.state / "metadata").iterdir()] == []
