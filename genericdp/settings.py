"""Daemon settings from the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.printing import quoted

if TYPE_CHECKING:
    from genericdp.kubelet.lifecycle import RegistrationTiming
    from genericdp.kubelet.podresources import PodResourcesTiming


DRIVER = "genericdp.io"
"""The driver's name, unless another is given."""
KUBELET_ROOT = Path("/var/lib/kubelet")
"""The kubelet's default ``--root-dir``."""
KUBELET_DIRECTORY = Path("/var/lib/kubelet/device-plugins")
"""A constant of the kubelet: its ``--root-dir`` does not move it."""
SERVED = "served.json"
"""The file with the names of the resources that a DRA driver serves, in its directory."""
CDI_DIRECTORY = Path("/var/run/cdi")
"""The directory in which container runtimes expect specs that are kept up to date."""
_WRITTEN = re.compile(r"(?:\[(?P<v6>[^][\s/@]*)\]|(?P<host>[^][\s/@:]*)):0*(?P<port>[0-9]{1,5})")
_LAST_PORT = 65535
_FORM = "HOST:PORT, [IPV6]:PORT or :PORT, where HOST is an IP address or localhost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """An address to listen on, or to connect to."""

    host: str
    """An IP address, ``localhost``, or empty for all addresses."""
    port: int
    """0: any free one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> Address:
    """Parse an address to listen on; raises ValueError with the reason.

    ``localhost`` is the only name: others may resolve to something else later, and slowly.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise ValueError(f"{quoted(text)} is not an address (give {_FORM})")
    host = written["v6"] if written["v6"] is not None else written["host"]
    if written["v6"] is not None or host not in {"", "localhost"}:
        _check(host, wants_v6=written["v6"] is not None, text=text)
    port = int(written["port"])
    if port > _LAST_PORT:
        raise ValueError(f"the port of {quoted(text)} is greater than {_LAST_PORT}")
    return Address(host=host, port=port)


def parse_server_address(text: str) -> Address:
    """Parse an address to connect to; raises ValueError. Without a host it is this machine."""
    written = _WRITTEN.fullmatch(text)
    if written is None or not 0 < int(written["port"]) <= _LAST_PORT:
        raise ValueError(f"{quoted(text)} is not an address to connect to")
    if written["v6"] is not None:
        IPv6Address(written["v6"])
    return Address(host=written["v6"] or written["host"] or "127.0.0.1", port=int(written["port"]))


def _check(host: str, *, wants_v6: bool, text: str) -> None:
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is None or (address.version == 6) != wants_v6:
        raise ValueError(f"{quoted(host)} in {quoted(text)} is not an IP address (give {_FORM})")
    if isinstance(address, IPv6Address) and (meant := address.ipv4_mapped) is not None:
        given = f"{quoted(host)} in {quoted(text)}"
        raise ValueError(f"{given} is not an address of its own: give {meant} instead")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimTiming:
    """The interval of asking the API server about prepared claims, in seconds."""

    period: float = 120.0
    """The approximate interval of requests about a claim."""
    warn: float = 600.0
    """How long the kubelet may take to unprepare a claim that no longer exists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DraSettings:
    """The settings of DRA from the command line; used once a resource is served by it."""

    driver: str
    kubelet_root: Path
    kubeconfig: Path | None = None
    """The kubeconfig for the API server; None for the access of the pod."""
    retry: float = 5.0
    """Seconds before a failed operation is tried again."""
    standby: float = 0.5
    """Seconds between attempts to get the lock that another instance holds."""
    claim_timing: ClaimTiming = ClaimTiming()

    @property
    def directory(self) -> Path:
        """The directory of the driver's socket and state, where the kubelet expects it."""
        return self.kubelet_root / "plugins" / self.driver

    @property
    def served_file(self) -> Path:
        """The file with the names of the resources that DRA serves, for the next start."""
        return self.directory / SERVED

    @property
    def claims_directory(self) -> Path:
        """The directory with a record of each prepared claim."""
        return self.directory / "claims"

    @property
    def metadata_directory(self) -> Path:
        """The directory with the files in which containers read the attributes of devices."""
        return self.directory / "metadata"

    @property
    def pod_resources(self) -> Path:
        """The kubelet's socket that lists the devices that pods hold."""
        return self.kubelet_root / "pod-resources/kubelet.sock"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of the daemon from the command line."""

    configs: tuple[Path, ...]
    kubelet_directory: Path
    cdi_directory: Path
    """Where CDI specs are written."""
    without_kubelet: bool = False
    """Whether to work without a kubelet: then all resources are served only as CDI specs."""
    dra: DraSettings | None = None
    """Settings of DRA; None if no resource can be served through it."""
    root: Path
    node_name: str
    policy: Path | None = None
    """The policy for the config; None if there is none."""
    state_dir: Path | None = None
    """Where the last good config is kept; None if it is not kept."""
    pod_resources: Path | None = None
    """The kubelet's socket that lists the devices that pods hold; None to use none."""
    pod_resources_timing: PodResourcesTiming | None = None
    timing: RegistrationTiming | None = None
    listen: Address | None = None
    """Where the endpoints are served; None if they are off."""
    shows_status: bool = True
    """Whether they show each device, with its serial number."""
