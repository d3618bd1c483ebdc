"""Held hardware: what pods and claims have, known as hardware and not as an ID.

An ID that names hardware today may name other hardware after an edit of the config. What counts
is the hardware: it is offered under no other name until nobody has it under this one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.model import ServedBy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.identity import HardwareIdentity


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldDevice:
    """A name under which hardware was offered, and who has it under that name."""

    resource: str
    device_id: str
    served_by: ServedBy = ServedBy.DEVICE_PLUGIN
    identities: tuple[HardwareIdentity, ...]
    """Of each member of the device."""
    replicas: int = 1
    """How many shares it had when it was given away; 1: its holder has it alone."""
    exclusive: bool = True
    """Whether no other resource may offer the same hardware."""
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Who has it, by share, for messages: ``pod default/listen``, ``claim default/stick``."""
    is_known: bool = True
    """Whether it is known who has it; else somebody may."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Why shares must not be offered although only their holder has them, by share."""
