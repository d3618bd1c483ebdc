"""What the command line says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genericdp.address import Address
    from genericdp.kubelet.lifecycle import RegistrationTiming
    from genericdp.kubelet.podresources import PodResourcesTiming


DRIVER = "genericdp.io"
"""The driver's name, unless another is given."""
KUBELET_ROOT = Path("/var/lib/kubelet")
"""The kubelet's ``--root-dir``, unless it is moved."""
KUBELET_FOLDER = Path("/var/lib/kubelet/device-plugins")
"""A constant of the kubelet: its ``--root-dir`` does not move it."""
CDI_FOLDER = Path("/var/run/cdi")
"""Where container runtimes look for specs that are kept up to date."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimTiming:
    """When the API server is asked about prepared claims, in seconds."""

    period: float = 120.0
    """Between two requests about a claim, more or less."""
    warn: float = 600.0
    """How long the kubelet may take to unprepare a claim that no longer exists."""


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
    claim_timing: ClaimTiming = ClaimTiming()

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the daemon is to do."""

    configs: tuple[Path, ...]
    kubelet_folder: Path
    cdi_folder: Path
    """Where CDI specs are written."""
    without_kubelet: bool = False
    """Whether there is no kubelet: then CDI specs, of all resources, are all that is served."""
    dra: DraSettings | None = None
    """How resources are served through DRA; None: none are."""
    root: Path
    node_name: str
    policy: Path | None = None
    """What bounds the config; None: nothing."""
    state_dir: Path | None = None
    """Where the last good config is kept; None: nowhere."""
    pod_resources: Path | None = None
    """The kubelet's socket that tells which devices pods hold; None: nobody asks."""
    pod_resources_timing: PodResourcesTiming | None = None
    timing: RegistrationTiming | None = None
    listen: Address | None = None
    """Where the endpoints are served; None: nowhere."""
    shows_status: bool = True
    """Whether they tell of each device, with its serial number."""
