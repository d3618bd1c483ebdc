"""The state of a running daemon at one moment, as all who show it take it.

Times are seconds since 1970: they are for people, and nothing is decided by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.config.loaded import ConfigState

if TYPE_CHECKING:
    from genericdp.host.descriptors import Supply


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceStatus:
    """A device in the list that the kubelet gets."""

    id: str
    healthy: bool
    path: str = ""
    reason: str = ""
    """Why it is Unhealthy."""
    since: float | None = None
    """Since when it is Healthy, or not; the reason may have changed meanwhile."""
    shares: int = 1
    numa_nodes: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    """The device nodes that a container is given, on the host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotOfferedStatus:
    """Something that was matched and is not in the list."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceStatus:
    """A resource of this node."""

    name: str
    registered: bool
    """Whether the kubelet has it and its stream is open."""
    reason: str = ""
    """Why it is not registered."""
    since: float | None = None
    """Since when it is registered, or not."""
    contested: str = ""
    """Who else serves it on this node; empty: nobody."""
    capacity: int = 0
    """Shares of all devices in the list."""
    allocatable: int = 0
    """Shares of the Healthy ones."""
    devices: tuple[DeviceStatus, ...] = ()
    """In natural order of their ids."""
    not_offered: tuple[NotOfferedStatus, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A line of the log at info or above."""

    time: float
    level: str
    """``info``, ``warning`` or ``error``."""
    message: str
    resource: str = ""
    device: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """All of it."""

    version: str
    node: str
    """The node's name."""
    time: float
    """When this was so."""
    started: float
    kubelet_folder: str
    kubelet_present: bool
    """Whether there is a ``kubelet.sock``."""
    kubelet_reason: str = ""
    """Why there is none."""
    not_ready: tuple[str, ...] = ()
    """Why the daemon is not ready, a line each; none: it is."""
    config: ConfigState = field(default_factory=ConfigState)
    descriptors: Supply | None = None
    """None: not counted yet."""
    resources: tuple[ResourceStatus, ...] = ()
    """Those wanted on this node, in the order of the config."""
    events: tuple[Event, ...] = ()
    """The last ones, the newest last."""

    @property
    def ready(self) -> bool:
        """Return whether every resource is registered, and a config in force."""
        return not self.not_ready
