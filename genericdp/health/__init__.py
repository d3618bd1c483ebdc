"""Device health: probes, thresholds, and the commands that probes and hooks run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from genericdp.model import Check

if TYPE_CHECKING:
    from genericdp.devices.device import Device
    from genericdp.errors import Outcome
    from genericdp.host.root import Root


class ThreadCheck(Check, ABC):
    """A check that runs in a thread, and is abandoned there if it hangs."""

    __slots__ = ()

    @abstractmethod
    def activity(self, device: Device) -> str:
        """Return a human-readable name; while a check hangs, none of the same name starts."""

    @abstractmethod
    def look(self, device: Device, root: Root, before: bytes) -> Outcome:
        """Run the check once, with the device's bound values.

        ``before`` is the digest of an earlier outcome; empty for the first one.
        """
