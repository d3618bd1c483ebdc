"""The links of a ConfigMap's volume, which kubelets make in a folder that anybody can write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import shipped
from tests.cluster.configs import one
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, START

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.daemonset import DaemonPod

pytestmark = [pytest.mark.cluster, pytest.mark.installed_by("kustomize")]

_OWN = "/etc/genericdp/genericdp.yaml"
_CONFIG = one(
    f"    values: {{kind: {{file: {_OWN}, regex: 'kind: (\\w+)'}}}}",
    "    id: $(value.kind)",
    f"    health: [{{file: {{path: {_OWN}, regex: DevicePluginConfig}}, periodSeconds: 1}}]",
    "    inject:",
    "      devices: [{path: $(device.path)}]",
    f"      mounts: [{{hostPath: {_OWN}, containerPath: /config.yaml}}]",
)


def test_values_probes_and_mounts_go_through_a_config_map_of_the_daemons_pod(
    cluster: Cluster, daemon: DaemonPod
) -> None:
    shipped.edit(cluster, _CONFIG)
    try:
        eventually(
            # What had another ID before stays listed for a while.
            lambda: {one["id"]: one["reason"] for one in daemon.resource(FUSE)["devices"]},
            lambda reasons: reasons.get("DevicePluginConfig") == "",
            what="the config that reads itself is in force",
        )
        cluster.await_allocatable(FUSE, 3)
    finally:
        shipped.edit(cluster, START)
        cluster.await_allocatable(FUSE, 3)
