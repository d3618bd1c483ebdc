"""Settings of the DRA driver of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.dra.prepare import ClaimTiming

DRIVER = "genericdp.io"
"""The driver's name, unless another is given."""
KUBELET_ROOT = "/var/lib/kubelet"
"""The kubelet's ``--root-dir``, unless it is moved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DraSettings:
    """What the command line says about DRA; used once a resource is served by it."""

    driver: str
    kubelet_root: Path
    kubeconfig: Path | None = None
    """The access to the API server; None: that of the pod."""
    retry: float = 5.0
    """Seconds before a failed operation is tried again."""
    standby: float = 0.5
    """Seconds between attempts to get the lock that another instance holds."""
    claim_timing: ClaimTiming | None = None
    """When the API server is asked about prepared claims; None: as usual."""

    @property
    def folder(self) -> Path:
        """The folder of the driver's socket and state, where the kubelet expects it."""
        return self.kubelet_root / "plugins" / self.driver

    @property
    def served_file(self) -> Path:
        """The file with the names of the resources that DRA serves, for the next start."""
        return self.folder / "served.json"

    @property
    def claims_folder(self) -> Path:
        """The folder with a record of each prepared claim."""
        return self.folder / "claims"

    @property
    def pod_resources(self) -> Path:
        """The kubelet's socket that tells which devices pods hold."""
        return self.kubelet_root / "pod-resources/kubelet.sock"
