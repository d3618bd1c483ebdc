"""The config that is tested, and the node and daemon a test works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.cluster.daemon import Daemon
    from tests.e2e.cluster.listing import PodResources
    from tests.e2e.cluster.node import Node
    from tests.e2e.cluster.pods import Pod

FUSE = "example.com/fuse"
LOOP = "example.com/loop"
IMAGE = "example.com/image"
"""Loop devices by the file behind them, which sysfs tells once they have one."""
_CONFIG = """\
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
  - name: example.com/image
    match:
      - udev:
          subsystem: block
          devtype: disk
          name: "loop5[0-9]"
          attributes: {loop/backing_file: "*/for-pods-*"}
    forgetAfterSeconds: 2
    inject:
      devices:
        - path: $(device.path)
          containerPath: /dev/image
      env:
        IMAGE_FILE: $(attribute.loop/backing_file)
"""


def config_in(folder: Path) -> str:
    """Give the config, and make the folders in there that it names."""
    for name in ("read-only", "writable"):
        (folder / name).mkdir()
        (folder / name / "of-the-host").touch()
    return _CONFIG.replace("FOLDER", str(folder))


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A node with the daemon on it, for one test."""

    node: Node
    daemon: Daemon
    folder: Path
    """Has ``read-only`` and ``writable``, which containers are given."""
    resources: PodResources
    pod: Callable[..., Pod]
    """``pod(name, {resource: n}, KEY=VALUE)`` is a running pod with these in its spec until the
    test ends."""

    def await_listed(self, resource: str, *ids: str, seconds: float = 30) -> None:
        """Wait until the kubelet lists exactly these devices."""
        self._await(resource, frozenset(ids).__eq__, f"{resource}: {ids}", seconds)

    def await_count(self, resource: str, count: int) -> frozenset[str]:
        """Wait until the kubelet lists so many devices; give their ids."""
        return self._await(resource, lambda ids: len(ids) == count, f"{count} of {resource}", 30)

    def _await(
        self, resource: str, wanted: Callable[[frozenset[str]], bool], what: str, seconds: float
    ) -> frozenset[str]:
        def allocatable() -> frozenset[str]:
            self.daemon.check_alive()
            return self.resources.allocatable().get(resource, frozenset())

        # Not its checkpoint: of two lists in one moment it may write the older one last.
        return eventually(allocatable, wanted, seconds=seconds, what=what)
