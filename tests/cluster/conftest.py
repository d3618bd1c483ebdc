"""A cluster, and the daemon in it as it is shipped: by kustomize, and by Helm."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster import shipped
from tests.cluster.cluster import Cluster, Parts
from tests.cluster.configs import FUSE, config_with
from tests.cluster.daemonset import DaemonPod, DaemonSet
from tests.e2e.choosing import from_run, leave_out
from tests.e2e.cluster import loop
from tests.e2e.cluster.versions import CLUSTER, CONTAINERD, ETCD, HELM

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Run one for all tests."""
    cache = from_run("GENERICDP_E2E_CACHE", "cluster-e2e")
    parts = Parts(
        version=CLUSTER,
        kubelet=cache / f"kubelet-{CLUSTER}",
        containerd=cache / f"containerd-{CONTAINERD}",
        control_plane=cache / f"control-plane-{CLUSTER}",
        etcd=cache / f"etcd-{ETCD}",
        helm=cache / f"helm-{HELM}",
    )
    with Cluster(from_run("GENERICDP_E2E_FOLDER", "cluster-e2e") / "cluster", parts) as running:
        shipped.load_image(running, shipped.ROOT / "build")
        yield running


@pytest.fixture(scope="session", params=["helm", "kustomize"])
def installed(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[DaemonSet]:
    """Install the daemon; every test leaves it with the config it begins with."""
    began = time.monotonic()
    helm = request.param == "helm"
    install, remove = (
        (shipped.install_chart, shipped.remove_chart)
        if helm
        else (shipped.kustomize, shipped.remove_kustomized)
    )
    install(cluster, config_with())
    daemonset = DaemonSet(cluster)
    daemonset.await_ready()
    print(f"\ninstalled by {request.param}: ready after {time.monotonic() - began:.1f} s")
    try:
        yield daemonset
    finally:
        remove(cluster)


@pytest.fixture
def daemon(installed: DaemonSet, cluster: Cluster) -> DaemonPod:
    """Give the daemon's pod, with the first config in force."""
    loop.remove_all()
    cluster.await_allocatable(FUSE, 3)
    return installed.await_ready()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the ways to install that a test's marker does not name.

    Tests that install the daemon themselves come first, when there is none.
    """
    leave_out(config, items, marker="installed_by", parameter="installed")
    items.sort(key=lambda item: "installed" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the pods beside a failure."""
    report = yield
    daemonset = getattr(item, "funcargs", {}).get("installed")
    if report.failed and daemonset is not None:
        report.sections.append(("the daemon's pods", daemonset.described()))
    return report
