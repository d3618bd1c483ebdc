"""Pods whose devices come from claims, and from plain limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.bench import DRIVER
from tests.cluster.dra.configs import COUNTED, DISK, FUSE
from tests.cluster.dra.pods import Manifest, apply, claim, container, pod, request, template
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

FUSE_CLASS, DISK_CLASS = "fuse.example.com", "disk.example.com"


@pytest.fixture
def disks(bench: Bench) -> Iterator[None]:
    """Plug in three."""
    for number in (61, 62, 63):
        loop.add(number)
    bench.await_devices(DISK, "loop61", "loop62", "loop63")
    yield
    loop.remove_all()


def number_is(number: int) -> str:
    return f'device.attributes["genericdp.io"].number == {number}'


def of_claim(name: str) -> dict[str, Manifest]:
    return {"devices": {"resourceClaimName": name}}


def user(name: str, claim_name: str = "", namespace: str = "default") -> Manifest:
    """Give a pod with one container, which gets everything of a claim."""
    main = container(claims=[{"name": "devices"}])
    return pod(name, main, claims=of_claim(claim_name or name), namespace=namespace)


def test_a_claim_that_selects_by_an_attribute_gives_the_pod_that_device(
    bench: Bench, disks: None
) -> None:
    of_62 = template("of-62", request("disk", DISK_CLASS, number_is(62)))
    by_template = {"devices": {"resourceClaimTemplateName": "of-62"}}
    wanted = pod("selects", container(claims=[{"name": "devices"}]), claims=by_template)
    with bench.made(of_62, wanted) as pods:
        status = pods["selects"].await_running()["status"]
        saw = pods["selects"].saw()
        assert [node for node in saw.nodes if "loop" in node] == ["/dev/loop62"]
        assert saw.nodes["/dev/loop62"] == "b 7 3e"
        assert saw.writes["/dev/loop62"] in {"ok", "No such device or address"}
        assert saw.env["DISKS"] == "loop62"
        (made,) = status["resourceClaimStatuses"]
        uid = bench.claim(made["resourceClaimName"])["metadata"]["uid"]
        assert (bench.prepared(), bench.specs()) == ({uid}, {uid})
        assert bench.used() == {("default", made["resourceClaimName"])}
        assert bench.hooks() == ["allocate loop62"]
    bench.await_unprepared()
    assert bench.hooks() == ["allocate loop62", "release loop62"]


def test_a_claim_gives_parameters_and_a_wrong_one_shows_in_the_events_of_its_pod(
    bench: Bench, disks: None
) -> None:
    asked = {name: claim(name, request("disk", DISK_CLASS)) for name in ("deep", "too-deep")}
    for name, depth in (("deep", 32), ("too-deep", 65)):
        values = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
        opaque = {"driver": DRIVER, "parameters": values | {"parameters": {"depth": depth}}}
        asked[name]["spec"]["devices"]["config"] = [{"requests": ["disk"], "opaque": opaque}]
    with bench.made(*asked.values(), user("deep"), user("too-deep")) as pods:
        pods["deep"].await_running()
        assert pods["deep"].saw().env["DISK_DEPTH"] == "32"
        why = f"request disk of {DISK}: parameter depth: 65 is not a whole number from 1 to 64"
        eventually(pods["too-deep"].described, lambda text: why in text, what="its events say why")
        assert not pods["too-deep"].is_running()
    bench.await_unprepared()


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


def test_plain_limits_get_devices_through_the_device_plugin_beside_it(bench: Bench) -> None:
    loop.add(71)
    bench.cluster.await_allocatable(COUNTED, 1)
    with bench.made(pod("counted", container(limits={COUNTED: 1}))) as pods:
        status = pods["counted"].await_running()["status"]
        saw = pods["counted"].saw()
        assert [node for node in saw.nodes if "loop" in node] == ["/dev/loop71"]
        assert "extendedResourceClaimStatus" not in status
        assert bench.prepared() == set()
    loop.remove(71)


def test_an_init_container_and_two_others_get_what_each_of_them_asks_for(
    bench: Bench, disks: None
) -> None:
    both = claim(
        "both",
        request("first", DISK_CLASS, number_is(61)),
        request("second", DISK_CLASS, number_is(63)),
    )
    first, second = ({"name": "devices", "request": name} for name in ("first", "second"))
    wanted = pod(
        "three",
        container("one", claims=[first]),
        container("other", claims=[first, second]),
        claims=of_claim("both"),
        init=[container("before", claims=[second], once=True)],
    )
    with bench.made(both, wanted) as pods:
        pods["three"].await_running()
        seen = {
            name: [node for node in pods["three"].saw(name).nodes if "loop" in node]
            for name in ("before", "one", "other")
        }
        assert seen == {
            "before": ["/dev/loop63"],
            "one": ["/dev/loop61"],
            "other": ["/dev/loop61", "/dev/loop63"],
        }
        assert sorted(bench.hooks()) == ["allocate loop61", "allocate loop63"]
    bench.await_unprepared()


def test_pods_share_a_claim_at_once_and_one_after_the_other(bench: Bench, disks: None) -> None:
    shared = claim("shared", request("disk", DISK_CLASS, number_is(61)))
    with bench.made(shared, user("a", "shared"), user("b", "shared")) as pods:
        for each_pod in pods.values():
            each_pod.await_running()
            assert "/dev/loop61" in each_pod.saw().nodes
        pods["a"].delete()
        pods["a"].await_gone()
        assert len(bench.prepared()) == 1, "the other one still has it"
        assert bench.hooks() == ["allocate loop61"]
        pods["b"].delete()
        pods["b"].await_gone()
        bench.await_unprepared()
        assert bench.hooks() == ["allocate loop61", "release loop61"]
        with bench.made(user("c", "shared")) as later:
            later["c"].await_running()
            assert "/dev/loop61" in later["c"].saw().nodes
        bench.await_unprepared()
    assert bench.hooks() == ["allocate loop61", "release loop61"] * 2


def test_an_administrator_looks_at_a_device_that_a_pod_has(bench: Bench, disks: None) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "of-admins",
            "labels": {"resource.kubernetes.io/admin-access": "true"},
        },
    }
    theirs = claim("has-it", request("disk", DISK_CLASS, number_is(62)))
    looks = request("disk", DISK_CLASS, number_is(62), adminAccess=True)
    both = claim("looks", looks, namespace="of-admins")
    with bench.made(theirs, user("has-it")) as pods:
        pods["has-it"].await_running()
        admin = user("looks", namespace="of-admins")
        apply(bench.cluster, namespace)
        account = "/api/v1/namespaces/of-admins/serviceaccounts/default"
        eventually(lambda: bench.cluster.api.get(account), what="pods can be made there")
        with bench.made(both, admin) as admins:
            admins["looks"].await_running()
            assert "/dev/loop62" in admins["looks"].saw().nodes
            assert len(bench.prepared()) == 2
        eventually(bench.prepared, lambda uids: len(uids) == 1, what="one record is left")
        assert "release loop62" not in bench.hooks(), "the pod still has it"
        assert pods["has-it"].is_running()
    bench.cluster.kubectl("delete", "namespace", "of-admins", "--wait=false")
    bench.await_unprepared()
    assert bench.hooks()[-1] == "release loop62"


def test_33_devices_stay_pending_with_the_schedulers_reason(bench: Bench) -> None:
    many = claim("many", request("fuse", FUSE_CLASS, count=33))
    most = claim("most", request("fuse", FUSE_CLASS, count=32))
    with bench.made(many, user("many"), most, user("most")) as pods:
        pods["many"].await_pending("exceeds the claim limit of 32")
        pods["most"].await_running()
        assert len(set(bench.allocated("most"))) == 32
    bench.await_unprepared()
