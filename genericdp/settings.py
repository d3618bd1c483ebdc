"""What the command line says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.address import Address
    from genericdp.dra.settings import DraSettings
    from genericdp.kubelet.lifecycle import RegistrationTiming
    from genericdp.kubelet.podresources import PodResourcesTiming


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
