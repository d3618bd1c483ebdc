"""Pods that ask for devices, and what the kubelet says to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """One container of a pod."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    """How many of each resource it asks for."""
    restartable: bool = False
    """Only of an init container: a sidecar, whose devices stay its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """What the kubelet knows of a pod: the plugin never sees any of it (ALL-1)."""

    uid: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    namespace: str = "default"

    @property
    def name(self) -> str:
        """Its name within the namespace: none but the uid is needed here."""
        return self.uid


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """Whether a pod may run here; a refusal is final (ALL-5)."""

    admitted: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """All that a container gets from its plugins, merged over its resources (ALL-6)."""

    devices: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Container path to host path and permissions."""
    mounts: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """Container path to host path and whether it is read-only."""
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Whether a container was started; the kubelet tries a failed one again (PRE-1)."""

    given: Given | None
    reason: str = ""
    message: str = ""
