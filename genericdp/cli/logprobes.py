"""Probes ``kernelLog``, asked once: what the kernel's log holds now."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from genericdp.health.kernellog import KernelLog
from genericdp.health.state import DeviceHealth
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from genericdp.devices.device import Device
    from genericdp.host.kmsg import Log

MOST_SECONDS = 10.0
"""The kernel's log is at most some MiB."""


class LogProbes:
    """Reads the log once for the probes of all devices."""

    def __init__(self, open_log: Callable[[], Log]) -> None:
        self._log = KernelLog(lambda _: None, open_log=open_log)
        self._devices: dict[tuple[str, str], DeviceHealth] = {}
        """By resource and ID."""

    def watch(self, devices: Iterable[tuple[str, Device]]) -> None:
        """Look for what the probes of these name; open nothing if none does. Call it once."""
        for resource, device in devices:
            since = -math.inf if device.known_since is None else device.known_since
            health = DeviceHealth.new(resource, device, time.monotonic(), since=since)
            self._devices[resource, device.id] = health
            self._log.watch(health)
        self._log.follow()

    def close(self) -> None:
        """Stop reading."""
        self._log.close()

    async def outcome(self, resource: str, index: int, device: Device) -> Outcome:
        """Return what the log says of a device by its probe with this index."""
        begin = time.monotonic()
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._log.caught_up()
        except TimeoutError:
            return Outcome(reason="reading the kernel's log does not end")
        state = self._devices[resource, device.id].states[index]
        return Outcome(reason=state.reason, seconds=time.monotonic() - begin)
