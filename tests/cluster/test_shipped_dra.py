"""Resources served by DRA from shipped pods, which reach the API server with their own token."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.settings import DRIVER

from tests.cluster import shipped
from tests.cluster.daemonset import NAMESPACE, DaemonSet
from tests.cluster.dra.pods import Pod, apply, claim, delete, request, user
from tests.deploy.rendering import with_components
from tests.e2e.cluster import loop
from tests.e2e.cluster.node import NODE_NAME
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

DISK = "example.com/shipped-disk"
CONFIG = f"""\
{HEAD}\
  - name: {DISK}
    servedBy: dra
    match: [{{path: "/dev/loop6[0-9]"}}]
    attributes: {{number: {{int: $(device.minor)}}}}
    inject:
      devices: [{{path: $(device.path)}}]
"""
IS_61 = f'device.attributes["{DRIVER}"].number == 61'
OURS = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings",
    "--selector=app.kubernetes.io/name=genericdp",
)
KIT = shipped.ROOT / "examples/driver"
OF_THE_KIT = {
    "match": [{"path": "/dev/loop72"}],
    "attributes": {"firmware": {"version": "1.2.0"}},
    "inject": {"devices": [{"path": "$(device.path)"}]},
    "health": [],
}


@pytest.fixture(scope="module", params=["kustomize", "helm"])
def installed_dra(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DaemonSet]:
    """Plug in a disk and install what serves it; nothing is left when that is uninstalled."""
    loop.remove_all()
    loop.add(61)
    with cluster.linked("plugins", "plugins_registry", "pod-resources"):
        if request.param == "helm":
            shipped.install_chart(cluster, CONFIG, dra={"enabled": True})
        else:
            component = with_components(tmp_path_factory.mktemp("component"), ["dra"])
            shipped.kustomize(cluster, CONFIG, of=component)
        installed = DaemonSet(cluster)
        # Until a minute after its start, a kubelet does not know what pods hold.
        await_offered(cluster, {DRIVER: ["loop61"]})
        installed.await_ready()
        words = ("exec", "daemonset/genericdp", "--", "genericdp", "deviceclasses")
        classes = cluster.kubectl("-n", NAMESPACE, *words, "--config=/etc/genericdp")
        cluster.kubectl("apply", "-f", "-", given=classes)
        yield installed
        cluster.kubectl("delete", "-f", "-", given=classes)
        if request.param == "helm":
            shipped.remove_chart(cluster)
        else:
            shipped.remove_kustomized(cluster)
    loop.remove_all()
    assert list((cluster.directory / "kubelet/plugins_registry").iterdir()) == []
    assert not (cluster.directory / "kubelet/plugins" / DRIVER / "dra.sock").exists()
    assert cluster.kubectl("get", *OURS, "--output=name") == ""


def slices(cluster: Cluster) -> list[dict[str, Any]]:
    return cluster.api.items("/apis/resource.k8s.io/v1/resourceslices")


def await_offered(cluster: Cluster, wanted: dict[str, list[str]]) -> None:
    """Wait until slices have these devices of drivers, and no others."""

    def offered() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for slice_ in slices(cluster):
            names = [device["name"] for device in slice_["spec"].get("devices") or ()]
            found.setdefault(slice_["spec"]["driver"], []).extend(names)
        return found

    eventually(offered, wanted.__eq__, what=f"slices of {wanted}")


def test_the_process_has_no_capability_and_writes_only_where_dra_has_to(
    installed_dra: DaemonSet,
) -> None:
    running = installed_dra.await_ready()
    says = installed_dra.kernel_says(running)
    assert {says[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    mounts = installed_dra.mounts(running)
    assert {mounts[path] for path in ("/", "/etc/cdi", "/var/lib/kubelet/pod-resources")} == {"ro"}
    writable = {path for path, how in mounts.items() if how == "rw"}
    assert {path for path in writable if path.startswith(("/etc/c", "/run", "/var"))} == {
        *("/run/cdi", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry"),
        f"/var/lib/kubelet/plugins/{DRIVER}",
    }


@pytest.mark.parametrize("installed_dra", ["kustomize"], indirect=True)
def test_a_pod_with_a_claim_has_its_device_through_an_update(
    cluster: Cluster, installed_dra: DaemonSet
) -> None:
    first = installed_dra.await_ready()
    made = user(claim("holder", request("disk", "shipped-disk.example.com", IS_61)))
    apply(cluster, *made)
    holder = Pod(cluster, "holder")
    holder.await_running()
    assert holder.disk() == "loop61"
    had, before = holder.containers(), versions(cluster)
    image = f"genericdp=genericdp:{shipped.OTHER_TAG}"
    cluster.kubectl("-n", NAMESPACE, "set", "image", "daemonset/genericdp", image)
    second = installed_dra.await_rolled_out()
    # One that waits for its turn says so in `contested`.
    eventually(
        lambda: second.resource(DISK),
        lambda state: state["registered"] and not state["contested"],
        what="the new pod serves",
    )
    assert second.uid != first.uid
    installed_dra.await_logged("waiting for its end")  # it was ready while the old one served
    assert versions(cluster) == before, "it takes over the ResourceSlices as they are"
    eventually(lambda: second.status()["claims"], (1).__eq__, what="it knows the claim")
    assert holder.containers() == had
    delete(cluster, *made)
    eventually(lambda: second.status()["claims"], (0).__eq__, what="the claim is unprepared")
    assert list(cluster.cdi_directory.glob("genericdp*")) == []


def versions(cluster: Cluster) -> list[str]:
    """Give that of each slice: another one once it has been written."""
    return [slice_["metadata"]["resourceVersion"] for slice_ in slices(cluster)]


@pytest.mark.parametrize("installed_dra", ["helm"], indirect=True)
def test_the_driver_of_the_kit_serves_the_same_node_and_can_end(
    cluster: Cluster, installed_dra: DaemonSet, tmp_path: Path
) -> None:
    loop.add(72)
    (wanted,) = next(yaml.safe_load_all((KIT / "pod.yaml").read_text()))["spec"]["spec"]["devices"][
        "requests"
    ]
    with kit(cluster, tmp_path):
        await_offered(cluster, {DRIVER: ["loop61"], "acme.example": ["loop72"]})
        card = {"name": "device", "exactly": wanted["exactly"]}
        disk = request("device", "shipped-disk.example.com")
        made = (*user(claim("disk", disk)), *user(claim("card", card)))
        apply(cluster, *made)
        for name, device in (("disk", "loop61"), ("card", "loop72")):
            pod = Pod(cluster, name)
            pod.await_running()
            assert pod.disk() == device
        delete(cluster, *made)
    # The kubelet deletes those of the driver that has ended.
    await_offered(cluster, {DRIVER: ["loop61"]})


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
    image = ("--set", "genericdp.image.repository=genericdp")
    where = ("--namespace", "acme-driver")
    cluster.helm("install", "acme-driver", str(chart), "--create-namespace", *image, *where)
    try:
        yield
    finally:
        cluster.helm("uninstall", "acme-driver", "--wait", "--timeout=300s", *where)
        cluster.kubectl("delete", "namespace", "acme-driver", "--timeout=300s")
        cluster.kubectl("label", "node", NODE_NAME, "acme.example/card-")
        shutil.rmtree("/var/lib/acme-driver")
