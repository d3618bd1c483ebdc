"""Pods that request devices, and the kubelet's answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.device import ContainerEdits


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """A container of a pod."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    """The number of devices requested of each resource."""
    claims: tuple[str, ...] = ()
    """The names of the ResourceClaims that it uses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod as the kubelet knows it; plugins see nothing of it (ALL-1)."""

    uid: str
    containers: tuple[Container, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """The verdict of admission; a rejection is final (ALL-5)."""

    admitted: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """The result of starting a container; the kubelet retries a failed start (PRE-1)."""

    given: ContainerEdits | None
    """The edits of all resources, merged (ALL-6); None if the start failed."""
    reason: str = ""
    message: str = ""
