"""A cluster, and the daemon in it as it is shipped: by kustomize, and by Helm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import shipped
from tests.cluster.cluster import Cluster, Parts
from tests.cluster.daemonset import DaemonPod, DaemonSet
from tests.e2e.choosing import from_run, leave_out
from tests.e2e.cluster import loop
from tests.e2e.cluster.versions import CONTAINERD, ETCD, HELM, clusters
from tests.e2e.scenarios import FUSE, START

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


@pytest.fixture(scope="session", params=clusters(), ids=lambda version: f"kubernetes-{version}")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Run one for all tests."""
    version: str = request.param
    cache = from_run("GENERICDP_E2E_CACHE", "cluster-e2e")
    parts = Parts(
        version=version,
        kubelet=cache / f"kubelet-{version}",
        containerd=cache / f"containerd-{CONTAINERD}",
        control_plane=cache / f"control-plane-{version}",
        etcd=cache / f"etcd-{ETCD}",
        helm=cache / f"helm-{HELM}",
    )
    directory = from_run("GENERICDP_E2E_DIRECTORY", "cluster-e2e") / version
    with Cluster(directory, parts) as running:
        shipped.load_image(running, shipped.ROOT / "build")
        yield running


@pytest.fixture(scope="session", params=["helm", "kustomize"])
def installed(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[DaemonSet]:
    """Install the daemon; every test leaves it with the config it begins with."""
    helm = request.param == "helm"
    install, remove = (
        (shipped.install_chart, shipped.remove_chart)
        if helm
        else (shipped.kustomize, shipped.remove_kustomized)
    )
    install(cluster, START)
    daemonset = DaemonSet(cluster)
    daemonset.await_ready()
    try:
        yield daemonset
    finally:
        remove(cluster)


@pytest.fixture
def daemon(installed: DaemonSet, cluster: Cluster) -> DaemonPod:
    """Give the daemon's pod, with the first active config."""
    loop.remove_all()
    cluster.await_allocatable(FUSE, 3)
    return installed.await_ready()


@pytest.fixture
def put_back(cluster: Cluster, installed: DaemonSet, daemon: DaemonPod) -> Iterator[None]:
    """Leave the cluster with the base and the config it began with."""
    yield
    shipped.kustomize(cluster, START)
    installed.await_rolled_out()
    cluster.await_allocatable(FUSE, 3)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the ways to install, and the clusters, that a test's markers do not name.

    One cluster after the other; in each, tests that install the daemon themselves come first, when
    there is not one.
    """
    leave_out(config, items, marker="installed_by", parameter="installed")
    leave_out(config, items, marker="clusters", parameter="cluster")
    versions = clusters()

    def order(item: pytest.Item) -> tuple[int, bool]:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        version = parameters.get("cluster")  # of other suites it may be anything
        place = versions.index(version) if version in versions else 0
        return place, "installed" in getattr(item, "fixturenames", ())

    items.sort(key=order)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the pods, or what the daemon without a pod logged, next to a failure."""
    report = yield
    given = getattr(item, "funcargs", {})
    if report.failed and "installed" in given:
        report.sections.append(("the daemon's pods", given["installed"].described()))
    bench = given.get("installed_bench")
    # At the end of the session its directory is missing.
    if report.failed and bench is not None and bench.directory.exists():
        report.sections.append(("the daemon's log", bench.daemon.log()))
    return report
