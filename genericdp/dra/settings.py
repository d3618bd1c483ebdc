"""Where and how the DRA driver of a node works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DRIVER = "genericdp.io"
"""The driver's name, unless another is given."""
KUBELET_ROOT = "/var/lib/kubelet"
"""The kubelet's ``--root-dir``, unless it is moved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DraSettings:
    """What the command line says of DRA; it counts once a resource is served by it."""

    driver: str
    kubelet_root: Path
    kubeconfig: Path | None = None
    """How the API server is reached; None: as from within a pod."""
    retry: float = 5.0
    """How long to wait before what failed is tried again, in seconds."""
    standby: float = 0.5
    """How often another instance of the driver is looked at that is in charge, in seconds."""

    @property
    def folder(self) -> Path:
        """The folder of the driver's sockets and its state, as the kubelet wants it."""
        return self.kubelet_root / "plugins" / self.driver

    @property
    def served_file(self) -> Path:
        """Names the resources that are served by DRA, since before the daemon started."""
        return self.folder / "served.json"

    @property
    def claims_folder(self) -> Path:
        """Holds a record of each claim that is prepared."""
        return self.folder / "claims"

    @property
    def pod_resources(self) -> Path:
        """The kubelet's socket that tells which devices pods hold."""
        return self.kubelet_root / "pod-resources/kubelet.sock"
