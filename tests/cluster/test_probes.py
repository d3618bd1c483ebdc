"""A probe and a hook in the shipped pod, with tools that an overlay brings in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp import __version__
from tests.cluster import shipped
from tests.cluster.dra.pods import consumer
from tests.e2e.scenarios import FUSE, START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod, DaemonSet

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]

_RUN = "/opt/tools/busybox, sh, /opt/scripts"
_CONFIG = f"""\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: {FUSE}
    match:
      - path: /dev/fuse
    replicas: 3
    health:
      - exec: {{command: [{_RUN}/check, $(device.path)]}}
        periodSeconds: 1
        failureThreshold: 1
      - file: {{path: /sys/class/misc/fuse/dev, regex: "^10:229$"}}
        periodSeconds: 1
    hooks:
      allocate:
        exec: {{command: [{_RUN}/prepare, $(device.path)]}}
"""
_HELD_UP = 'echo "$1 is being cleaned"; exit 1\n'
_READY = '/opt/tools/busybox test -c "$1" || exit 1\n'


def _scripts(check: str) -> dict[str, str]:
    return {"check": check, "prepare": _READY}


@pytest.fixture
def with_tools(cluster: Cluster, installed: DaemonSet, daemon: DaemonPod) -> Iterator[DaemonPod]:
    """Roll the overlay out over what is installed, and the base after it."""
    shipped.kustomize(cluster, _CONFIG, of=shipped.OVERLAYS / "tools", files=_scripts(_READY))
    yield installed.await_rolled_out()
    shipped.kustomize(cluster, START, tag=__version__)
    installed.await_rolled_out()


def test_a_probe_and_a_hook_run_with_the_rights_of_the_base(
    cluster: Cluster, installed: DaemonSet, with_tools: DaemonPod
) -> None:
    assert installed.kernel_says(with_tools)["CapEff"] == "0" * 16
    cluster.await_allocatable(FUSE, 3)
    with consumer(cluster, "prepared", FUSE) as pod:
        pod.await_running()
        labels = f'hook="allocate",resource="{FUSE}",result="success"'
        assert with_tools.metric(f"genericdp_hook_results_total{{{labels}}}") >= 1
    shipped.kustomize(cluster, _CONFIG, of=shipped.OVERLAYS / "tools", files=_scripts(_HELD_UP))
    cluster.await_allocatable(FUSE, 0)
    with_tools.await_reason(FUSE, "/dev/fuse is being cleaned")
    assert installed.await_ready().restarts == 0
