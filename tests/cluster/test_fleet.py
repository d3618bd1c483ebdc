"""For operators of many nodes: missing devices are reported, and a group can be a canary."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp import __version__

from tests.cluster import shipped
from tests.cluster.daemonset import NAMESPACE, DaemonSet
from tests.deploy.alerts import mistakes
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, LOOP, START, config, fuse, loops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod

pytestmark = pytest.mark.cluster


@pytest.fixture
def config_is_put_back(cluster: Cluster, daemon: DaemonPod) -> Iterator[None]:
    """Leave the cluster with the config it began with."""
    yield
    loop.remove_all()
    shipped.edit(cluster, START)
    eventually(lambda: daemon.resource(LOOP)["expected"] is None, what="nothing is expected")
    cluster.await_allocatable(FUSE, 3)


@pytest.mark.usefixtures("config_is_put_back")
@pytest.mark.installed_by("kustomize")
def test_a_device_that_is_gone_is_missed_in_status_log_and_alert(
    cluster: Cluster, installed: DaemonSet, daemon: DaemonPod, tmp_path: Path
) -> None:
    for number in (62, 63):
        loop.add(number)
    shipped.edit(cluster, config(fuse(), loops(more="    expect: 2\n")))
    cluster.await_allocatable(LOOP, 2)
    eventually(lambda: daemon.resource(LOOP)["expected"], what="two devices are expected")
    fine = _about_loops(daemon)
    assert daemon.resource(LOOP)["expected"]["code"] == ""
    loop.remove(63)
    shown = cluster.kubectl
    words = ("-n", NAMESPACE, "exec", daemon.name, "--", "genericdp", "status")
    eventually(
        lambda: shown(*words),
        lambda text: f"{LOOP}: 1 device Healthy, expected 2; forgotten: loop63" in text,
        what="status names the device that was forgotten",
    )
    assert daemon.metric(f'genericdp_devices_missing{{resource="{LOOP}"}}') == 1
    installed.await_logged("device loop63 is forgotten: /dev/loop63 does not exist")
    (device,) = daemon.resource(LOOP)["devices"]
    assert device["id"] == "loop62"
    lost = _about_loops(daemon)
    assert mistakes(tmp_path, [fine], set()) == ""
    assert mistakes(tmp_path, [lost], {"GenericdpDevicesMissing"}) == ""


def _about_loops(daemon: DaemonPod) -> str:
    """Return the metrics without those of other resources, in which earlier tests may be seen."""
    own = f'resource="{LOOP}"'
    lines = daemon.get("/metrics")[1].splitlines(keepends=True)
    return "".join(line for line in lines if own in line or "resource=" not in line)


_GROUPS = f"""
canary:
  image: {{tag: {shipped.OTHER_TAG}}}
  nodeSelector: {{example.com/genericdp: canary}}
fleet:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions: [{{key: example.com/genericdp, operator: NotIn, values: [canary]}}]
"""


def test_a_node_becomes_a_canary_and_has_another_image(cluster: Cluster) -> None:
    """Not ``installed``: the chart with groups is another installation."""
    groups: dict[str, dict[str, Any]] = yaml.safe_load(_GROUPS)
    for group in groups.values():
        group["config"] = yaml.safe_load(START)
    shipped.install_chart(cluster, START, nodeGroups=groups)
    node = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    try:
        daemonset = DaemonSet(cluster)
        assert _image(cluster, daemonset.await_ready()).endswith(f":{__version__}")
        cluster.await_allocatable(FUSE, 3)
        cluster.kubectl("label", "node", node, "example.com/genericdp=canary")
        canary = eventually(
            lambda: [pod for pod in daemonset.pods() if "canary" in pod.name and pod.ready],
            what="the canary is ready",
        )[0]
        assert _image(cluster, canary).endswith(f":{shipped.OTHER_TAG}")
        daemonset.await_ready()  # that of the fleet has gone
        cluster.await_allocatable(FUSE, 3)
    finally:
        cluster.kubectl("label", "node", node, "example.com/genericdp-", check=False)
        shipped.remove_chart(cluster)


def _image(cluster: Cluster, pod: DaemonPod) -> str:
    path = "{.spec.containers[0].image}"
    return cluster.kubectl("-n", NAMESPACE, "get", "pod", pod.name, "-o", f"jsonpath={path}")
