"""Resources served by DRA from the shipped pod, which reaches the API server with its own token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.settings import DRIVER

from tests.cluster import shipped
from tests.cluster.daemonset import NAMESPACE, DaemonSet
from tests.cluster.dra.pods import Pod, apply, claim, container, delete, pod, request
from tests.deploy.rendering import with_components
from tests.e2e.cluster import loop
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
OURS = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings",
    "--selector=app.kubernetes.io/name=genericdp",
)


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
        eventually(lambda: devices(cluster), ["loop61"].__eq__, what="a slice")
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
    """Give those of the disks."""
    found = cluster.api.items("/apis/resource.k8s.io/v1/resourceslices")
    return [match for match in found if match["spec"]["pool"]["name"].endswith(f"/{DISK}")]


def devices(cluster: Cluster) -> list[str]:
    """Give the disks on offer."""
    return [
        device["name"]
        for slice_ in slices(cluster)
        for device in slice_["spec"].get("devices") or ()
    ]


def user(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give a claim of the disk and a pod with it, both of a name."""
    is_61 = f'device.attributes["{DRIVER}"].number == 61'
    disk = request("disk", "shipped-disk.example.com", is_61)
    main = container(claims=[{"name": "disk"}])
    return claim(name, disk), pod(name, main, claims={"disk": {"resourceClaimName": name}})


def test_the_process_has_no_capability_and_writes_only_where_dra_has_to(
    installed_dra: DaemonSet,
) -> None:
    running = installed_dra.await_ready()
    says = installed_dra.kernel_says(running)
    assert {says[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    lines = Path(f"/proc/{installed_dra.process_id(running)}/mounts").read_text().splitlines()
    mounts = {words[1]: words[3].split(",")[0] for words in map(str.split, lines)}
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
    apply(cluster, *user("holder"))
    holder = Pod(cluster, "holder")
    holder.await_running()
    assert [path for path in holder.saw().nodes if "loop" in path] == ["/dev/loop61"]
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
    delete(cluster, *user("holder"))
    eventually(lambda: second.status()["claims"], (0).__eq__, what="the claim is unprepared")
    assert list(cluster.cdi_directory.glob("genericdp*")) == []


def versions(cluster: Cluster) -> list[str]:
    """Give that of each slice: another one once it has been written."""
    return [slice_["metadata"]["resourceVersion"] for slice_ in slices(cluster)]
