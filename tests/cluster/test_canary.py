"""A group of nodes with an image of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp import __version__

from tests.cluster import shipped
from tests.cluster.daemonset import NAMESPACE, DaemonSet
from tests.e2e.cluster.node import NODE_NAME
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, START

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod

pytestmark = pytest.mark.cluster

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
    try:
        daemonset = DaemonSet(cluster)
        assert _image(cluster, daemonset.await_ready()).endswith(f":{__version__}")
        cluster.await_allocatable(FUSE, 3)
        cluster.kubectl("label", "node", NODE_NAME, "example.com/genericdp=canary")
        canary = eventually(
            lambda: [pod for pod in daemonset.pods() if "canary" in pod.name and pod.ready],
            what="the canary is ready",
        )[0]
        assert _image(cluster, canary).endswith(f":{shipped.OTHER_TAG}")
        daemonset.await_ready()  # that of the fleet has gone
        cluster.await_allocatable(FUSE, 3)
    finally:
        cluster.kubectl("label", "node", NODE_NAME, "example.com/genericdp-", check=False)
        shipped.remove_chart(cluster)


def _image(cluster: Cluster, pod: DaemonPod) -> str:
    path = "{.spec.containers[0].image}"
    return cluster.kubectl("-n", NAMESPACE, "get", "pod", pod.name, "-o", f"jsonpath={path}")
