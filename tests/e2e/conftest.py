"""A real node for each kubelet, the daemon on it, and what both of them list."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import PREFIX, Bench
from tests.e2e.choosing import from_run, leave_out
from tests.e2e.cluster import loop
from tests.e2e.cluster.daemon import Daemon
from tests.e2e.cluster.listing import PodResources
from tests.e2e.cluster.node import Binaries, Node
from tests.e2e.cluster.pods import Pod
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.versions import CONTAINERD, chosen
from tests.e2e.scenarios import ALL_FUSE, FUSE, START

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


@pytest.fixture
def program() -> Path:
    """Give the command under test: the one next to this Python."""
    beside = Path(sys.executable).parent / "genericdp"
    return Path(os.environ.get("GENERICDP_E2E_PROGRAM", beside))


@pytest.fixture(scope="session", params=chosen(), ids=lambda version: f"kubelet-{version}")
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Run one node at a time: the kubelet's directory for plugins is the same for all."""
    version: str = request.param
    cache = from_run("GENERICDP_E2E_CACHE", "e2e")
    binaries = Binaries(
        version=version,
        kubelet=cache / f"kubelet-{version}",
        containerd=cache / f"containerd-{CONTAINERD}",
    )
    with Node(from_run("GENERICDP_E2E_DIRECTORY", "e2e") / version, binaries) as running:
        print(f"\nkubelet {version} runs", flush=True)
        yield running


@pytest.fixture
def loops() -> Iterator[None]:
    """Begin and end without the tests' loop devices."""
    loop.remove_all()
    yield
    loop.remove_all()


@pytest.fixture
def config() -> str:
    """Give what the daemon is started with; a module may add to it."""
    return START


@pytest.fixture
def bench(node: Node, loops: None, program: Path, config: str, tmp_path: Path) -> Iterator[Bench]:
    """Start the daemon, and wait until the kubelet lists what the config promises."""
    with ExitStack() as ends:
        # Entered first, so that it ends last, when the pods have gone.
        daemon = Daemon(program, tmp_path, config, DEVICE_PLUGINS)
        daemon.options = ("--cdi-dir", str(node.cdi_directory))
        ends.enter_context(daemon)

        pods: list[Pod] = []

        def pod(
            name: str, limits: dict[str, int] | None = None, look_at: str = "", **more: object
        ) -> Pod:
            pods.append(ends.enter_context(Pod(node, name, limits or {}, look_at, more)))
            return pods[-1]

        bench = Bench(
            node=node,
            daemon=daemon,
            directory=tmp_path,
            resources=PodResources(node.directory),
            pod=pod,
        )
        bench.await_listed(FUSE, *ALL_FUSE)
        bench.await_registered(*re.findall(f"- name: ({PREFIX}.*)", config))
        try:
            yield bench
        finally:
            # All at once: one after the other takes 2 s for each.
            for each_pod in pods:
                each_pod.withdraw()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the kubelets that a test's marker does not name."""
    leave_out(config, items, marker="kubelets", parameter="node")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the daemon logged next to a failure."""
    report = yield
    bench = getattr(item, "funcargs", {}).get("bench")
    if report.failed and bench is not None:
        report.sections.append(("the daemon's log", bench.daemon.log()))
    return report
