"""The config that is tested, and the node and daemon a test works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.e2e.cluster import listing
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.cluster.daemon import Daemon
    from tests.e2e.cluster.listing import Ids, PodResources
    from tests.e2e.cluster.node import Node
    from tests.e2e.cluster.pods import Pod

FUSE = "example.com/fuse"
LOOP = "example.com/loop"
CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/fuse
    match:
      - path: /dev/fuse
    replicas: 3
    inject:
      devices:
        - path: $(device.path)
      mounts:
        - {hostPath: FOLDER/read-only, containerPath: /opt/read-only}
        - {hostPath: FOLDER/writable, containerPath: /opt/writable, readOnly: false}
      env:
        FUSE_DEVICE: $(device.path)
        FUSE_ID: $(device.id)
      annotations:
        example.com/fuse: $(device.id)
  - name: example.com/loop
    match:
      - path: /dev/loop6[0-9]
    exclude:
      - path: /dev/loop69
    forgetAfterSeconds: 2
    inject:
      devices:
        - path: $(device.path)
          containerPath: /dev/disk$(allocation.index)
          permissions: r
      env:
        LOOP_DEVICES: $(device.path)
      annotations:
        example.com/loop: $(device.id)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A node with the daemon on it, for one test."""

    node: Node
    daemon: Daemon
    folder: Path
    """Has ``read-only`` and ``writable``, which containers are given."""
    resources: PodResources
    pod: Callable[..., Pod]
    """``pod(name, {resource: n})`` is a running pod until the test ends."""

    def await_listed(self, resource: str, *ids: str, seconds: float = 30) -> None:
        """Wait until the kubelet lists exactly these devices, on both of its ways to tell."""
        wanted = frozenset(ids)
        for name, look in (
            ("checkpoint", listing.registered),
            ("pod-resources", self.resources.allocatable),
        ):

            def listed(look: Callable[[], Ids] = look) -> frozenset[str]:
                return look().get(resource, frozenset())

            eventually(
                listed, wanted.__eq__, seconds=seconds, what=f"{resource} {ids} in the {name}"
            )
