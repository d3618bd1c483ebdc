"""The daemon as a DRA driver in a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.dra.account import account
from tests.cluster.dra.bench import ADDRESS, DRIVER, Bench
from tests.cluster.dra.configs import DISK, FUSE, MANY, PART, STICK, config
from tests.e2e.cluster import loop
from tests.e2e.cluster.daemon import Daemon
from tests.e2e.cluster.sweep import DEVICE_PLUGINS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster


@pytest.fixture(scope="package")
def installed_bench(cluster: Cluster) -> Iterator[Bench]:
    """Install and start what all tests of this directory share."""
    program = Path(
        os.environ.get("GENERICDP_E2E_PROGRAM", Path(sys.executable).parent / "genericdp")
    )
    loop.remove_all()
    directory = cluster.directory / "dra"
    directory.mkdir()
    cluster.cdi_directory.mkdir(exist_ok=True)
    with account(cluster, directory / "account") as kubeconfig:
        daemon = Daemon(program, directory, config(directory), DEVICE_PLUGINS)
        daemon.options = (
            f"--kubelet-root={cluster.directory}/kubelet",
            f"--kubeconfig={kubeconfig}",
            f"--cdi-dir={cluster.cdi_directory}",
            f"--listen={ADDRESS}",
        )
        # As on a node that has had DRA before. Otherwise it would be known only a minute after the
        # kubelet's start that no pod has such devices through a device plugin.
        state = cluster.directory / "kubelet/plugins" / DRIVER
        state.mkdir(parents=True, exist_ok=True)
        served = {"version": 1, "resources": [FUSE, DISK, MANY, PART, STICK]}
        (state / "served.json").write_text(json.dumps(served))
        with daemon:
            words = (str(program), "deviceclasses", "--config", str(directory / "config.yaml"))
            classes = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            cluster.kubectl("apply", "-f", "-", given=classes)
            bench = Bench(cluster=cluster, daemon=daemon, directory=directory)
            bench.await_count(FUSE, 40)
            yield bench
        cluster.kubectl("delete", "-f", "-", given=classes)


@pytest.fixture
def bench(installed_bench: Bench) -> Bench:
    """Give what all tests share, without a claim and without loop devices."""
    loop.remove_all()
    installed_bench.await_unprepared()
    for resource in (DISK, STICK, PART):
        installed_bench.await_pool(resource, 0)
    (installed_bench.directory / "hooks").unlink(missing_ok=True)
    return installed_bench


@pytest.fixture
def disks(bench: Bench) -> Bench:
    """Plug in three."""
    for number in (61, 62, 63):
        loop.add(number)
    bench.await_devices(DISK, "loop61", "loop62", "loop63")
    return bench
