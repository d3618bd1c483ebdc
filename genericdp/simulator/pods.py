"""Pods that request devices, and the kubelet's answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """A container of a pod."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    """The number of devices requested of each resource."""
    restartable: bool = False
    """For an init container: whether it is a sidecar, which keeps its devices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod as the kubelet knows it; plugins see nothing of it (ALL-1)."""

    uid: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    namespace: str = "default"

    @property
    def name(self) -> str:
        """The pod's name; nothing here needs one that differs from the UID."""
        return self.uid


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """Whether a pod is admitted; a rejection is final (ALL-5)."""

    admitted: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The container edits of all resources of a container, merged (ALL-6)."""

    devices: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Host path and permissions by container path."""
    mounts: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """Host path and whether it is read-only, by container path."""
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """The result of starting a container; the kubelet retries a failed start (PRE-1)."""

    given: Given | None
    """None: the start failed."""
    reason: str = ""
    message: str = ""
