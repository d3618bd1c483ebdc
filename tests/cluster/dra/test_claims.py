"""Pods whose devices come from claims, and from plain limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.bench import DRIVER
from tests.cluster.dra.configs import DISK, FUSE, STICK
from tests.cluster.dra.pods import claim, container, pod, request, template, user
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

STICKS = "stick.example.com"


def test_a_claim_that_selects_by_an_attribute_gives_the_pod_that_device(disks: Bench) -> None:
    is_62 = f'device.attributes["{DRIVER}"].number == 62'
    of_62 = template("of-62", request("disk", "disk.example.com", is_62))
    by_template = {"devices": {"resourceClaimTemplateName": "of-62"}}
    wanted = pod("selects", container(claims=[{"name": "devices"}]), claims=by_template)
    with disks.made(of_62, wanted) as pods:
        status = pods["selects"].await_running()["status"]
        saw = pods["selects"].saw()
        assert [node for node in saw.nodes if "loop" in node] == ["/dev/loop62"]
        assert saw.nodes["/dev/loop62"] == "b 7 3e"
        assert saw.writes["/dev/loop62"] in {"ok", "No such device or address"}
        assert saw.env["DISKS"] == "loop62"
        (made,) = status["resourceClaimStatuses"]
        uid = disks.claim(made["resourceClaimName"])["metadata"]["uid"]
        assert (disks.prepared(), disks.specs()) == ({uid}, {uid})
        assert disks.hooks() == ["allocate loop62"]
    disks.await_unprepared()
    assert disks.hooks() == ["allocate loop62", "release loop62"]


def test_a_claim_gives_parameters_and_a_wrong_one_shows_in_the_events_of_its_pod(
    disks: Bench,
) -> None:
    asked = {name: claim(name, request("disk", "disk.example.com")) for name in ("deep", "wrong")}
    for name, depth in (("deep", 32), ("wrong", 65)):
        values = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
        opaque = {"driver": DRIVER, "parameters": values | {"parameters": {"depth": depth}}}
        asked[name]["spec"]["devices"]["config"] = [{"requests": ["disk"], "opaque": opaque}]
    with disks.made(*user(asked["deep"]), *user(asked["wrong"])) as pods:
        pods["deep"].await_running()
        assert pods["deep"].saw().env["DISK_DEPTH"] == "32"
        why = f"request disk of {DISK}: parameter depth: 65 is not a whole number from 1 to 64"
        eventually(pods["wrong"].described, lambda text: why in text, what="its events say why")
        assert not pods["wrong"].is_running()
    disks.await_unprepared()


@pytest.mark.clusters("1.37.0", "1.36.3")
def test_plain_limits_get_devices_through_dra(bench: Bench) -> None:
    """Before 1.36 a scheduler would have to know, and kubelets start the pod without."""
    with bench.made(pod("plain", container(limits={FUSE: 2}))) as pods:
        status = pods["plain"].await_running()["status"]
        saw = pods["plain"].saw()
        assert saw.nodes["/dev/fuse"] == "c a e5"
        assert saw.writes["/dev/fuse"] == "ok"
        name = status["extendedResourceClaimStatus"]["resourceClaimName"]
        assert len(set(bench.allocated(name))) == 2
        assert saw.env["FUSE_IDS"] == "fuse", "both are shares of it"
    bench.await_unprepared()


def test_each_container_of_a_pod_gets_what_it_asks_for_of_several_claims(bench: Bench) -> None:
    for number in (80, 81, 82):
        loop.add(number)
    bench.await_count(STICK, 3)
    arms, eye = {"name": "arms"}, {"name": "eye"}
    robot = pod(
        "robot",
        container("left", claims=[arms | {"request": "left"}]),
        container("all", claims=[arms, eye]),
        init=[container("before", claims=[eye], once=True)],
        claims={
            "arms": {"resourceClaimTemplateName": "pair"},
            "eye": {"resourceClaimName": "camera"},
        },
    )
    pair = template("pair", request("left", STICKS), request("right", STICKS))
    with bench.made(pair, claim("camera", request("only", STICKS)), robot) as pods:
        pods["robot"].await_running()
        seen = {name: pods["robot"].saw(name).nodes for name in ("before", "left", "all")}
        # A template's claim is called as in the pod, the other one by its own name.
        paths = {"/dev/arms/left", "/dev/arms/right", "/dev/camera/only"}
        given = {name: paths & nodes.keys() for name, nodes in seen.items()}
        assert given == {
            "before": {"/dev/camera/only"},
            "left": {"/dev/arms/left"},
            "all": paths,
        }
        assert len({seen["all"][path] for path in paths}) == 3
        assert seen["left"]["/dev/arms/left"] == seen["all"]["/dev/arms/left"]
    bench.await_unprepared()


def test_pods_share_a_claim_at_once_and_one_after_the_other(disks: Bench) -> None:
    shared = claim("shared", request("disk", "disk.example.com"))
    with disks.made(shared, user(shared, "a")[1], user(shared, "b")[1]) as pods:
        for each_pod in pods.values():
            each_pod.await_running()
        disk = pods["a"].disk()
        assert pods["b"].disk() == disk
        pods["a"].delete()
        pods["a"].await_gone()
        assert len(disks.prepared()) == 1, "the other one still has it"
        pods["b"].delete()
        pods["b"].await_gone()
        disks.await_unprepared()
        assert disks.hooks() == [f"allocate {disk}", f"release {disk}"]
        with disks.made(user(shared, "c")[1]) as later:
            later["c"].await_running()
            assert later["c"].disk() == disk
    disks.await_unprepared()
    assert disks.hooks() == [f"allocate {disk}", f"release {disk}"] * 2
