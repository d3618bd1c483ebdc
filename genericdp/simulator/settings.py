"""Settings of a simulated kubelet: its generation, timeouts and faults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Generation(StrEnum):
    """The kubelet's way to distinguish two plugins of one resource."""

    A = "A"
    """Up to 1.36: by resource name alone, with the bugs of REG-9."""
    B = "B"
    """From 1.37: by name and socket path, with those of REG-10."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """The kubelet's timeouts; tests shorten them."""

    dial_seconds: float = 10.0
    """Timeout for connecting to a plugin during Register."""
    prestart_seconds: float = 30.0
    """Timeout of PreStartContainer."""


@dataclass(kw_only=True, slots=True)
class Faults:
    """Faults of the kubelet, none by default; may be changed while it runs."""

    register_delay_seconds: float = 0.0
    """Register waits this long before it does anything."""
    answer_delay_seconds: float = 0.0
    """Register does its work, but returns this much later."""
    refuse_register: str | None = None
    """Register fails with this text."""
    stream_delay_seconds: float = 0.0
    """Time between a registration and its ListAndWatch."""
    refuse_pod_resources: bool = False
    """The PodResources API rejects each call, as it does while others call it too often."""
    honours_cancel: bool = False
    """A caller that gives up ends the registration, as in 1.36 and 1.37. In older kubelets the
    registration continues and leaves a ghost registration behind (REG-3).
    """
