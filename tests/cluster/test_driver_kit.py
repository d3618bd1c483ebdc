"""The driver of examples/driver next to the shipped one on a node."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster import shipped
from tests.cluster.dra.pods import Pod, apply, claim, container, delete, pod, request
from tests.cluster.test_shipped_dra import CONFIG
from tests.e2e.cluster import loop
from tests.e2e.cluster.node import NODE_NAME
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

KIT = shipped.ROOT / "examples/driver"
NAME, DRIVER = "acme-driver", "acme.example"
STATE = Path("/var/lib/acme-driver")
OF_THE_KIT = {
    "match": [{"path": "/dev/loop72"}],
    "attributes": {"firmware": {"version": "1.2.0"}},
    "inject": {"devices": [{"path": "$(device.path)"}]},
    "health": [],
}


@contextmanager
def kit(cluster: Cluster, directory: Path) -> Iterator[None]:
    """Install it as its README says, with a disk as the card."""
    chart = shutil.copytree(KIT, directory / "driver")
    shutil.copytree(shipped.CHART, chart / "charts/genericdp")
    config = yaml.safe_load((chart / "config/driver.yaml").read_text())
    config["resources"][0] |= OF_THE_KIT
    (chart / "config/driver.yaml").write_text(json.dumps(config))
    policy = yaml.safe_load((chart / "policy.yaml").read_text())
    policy["devices"] = {"paths": ["/dev/loop72"], "block": True}
    (chart / "policy.yaml").write_text(json.dumps(policy))
    cluster.kubectl("label", "node", NODE_NAME, "acme.example/card=true")
    image = "genericdp.image.repository=genericdp"
    where = ("--namespace", NAME)
    cluster.helm("install", NAME, str(chart), "--create-namespace", "--set", image, *where)
    try:
        yield
    finally:
        cluster.helm("uninstall", NAME, "--wait", "--timeout=300s", *where)
        cluster.kubectl("delete", "namespace", NAME, "--timeout=300s")
        cluster.kubectl("label", "node", NODE_NAME, "acme.example/card-")
        shutil.rmtree(STATE)


def offered(cluster: Cluster) -> dict[str, list[str]]:
    """Give the devices in ResourceSlices, by driver."""
    found: dict[str, list[str]] = {}
    for slice_ in cluster.api.items("/apis/resource.k8s.io/v1/resourceslices"):
        names = [device["name"] for device in slice_["spec"].get("devices") or ()]
        found.setdefault(slice_["spec"]["driver"], []).extend(names)
    return found


def user(name: str, device_class: str, expression: str = "") -> tuple[dict[str, Any], ...]:
    """Give a claim and a pod with it, both of a name."""
    main = container(claims=[{"name": "device"}])
    wanted = claim(name, request("device", device_class, expression))
    return wanted, pod(name, main, claims={"device": {"resourceClaimName": name}})


def test_two_drivers_serve_one_node_and_one_of_them_can_end(
    cluster: Cluster, tmp_path: Path
) -> None:
    loop.remove_all()
    loop.add(61)
    loop.add(72)
    (selector,) = (
        selector["cel"]["expression"]
        for selector in next(yaml.safe_load_all((KIT / "pod.yaml").read_text()))["spec"]["spec"][
            "devices"
        ]["requests"][0]["exactly"]["selectors"]
    )
    with cluster.linked("plugins", "plugins_registry", "pod-resources"):
        shipped.install_chart(cluster, CONFIG, dra={"enabled": True})
        disk = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "any-disk"},
            "spec": {"selectors": [{"cel": {"expression": 'device.driver == "genericdp.io"'}}]},
        }
        apply(cluster, disk)
        with kit(cluster, tmp_path):
            both = {"genericdp.io": ["loop61"], DRIVER: ["loop72"]}
            eventually(lambda: offered(cluster), both.__eq__, what="slices of both drivers")
            pods = (*user("disk", "any-disk"), *user("card", "card.acme.example", selector))
            apply(cluster, *pods)
            for name, node in (("disk", "/dev/loop61"), ("card", "/dev/loop72")):
                Pod(cluster, name).await_running()
                seen = Pod(cluster, name).saw().nodes
                assert [path for path in seen if "loop" in path] == [node]
            delete(cluster, *pods)
        only = {"genericdp.io": ["loop61"]}
        eventually(lambda: offered(cluster), only.__eq__, what="the kubelet deletes the others")
        delete(cluster, disk)
        shipped.remove_chart(cluster)
    loop.remove_all()
