"""Probes ``kernelLog``, asked once: what the kernel's log holds now."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.devices.checks import LogWatch
from genericdp.health.kernellog import KernelLog
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from genericdp.devices.device import Device
    from genericdp.host.kmsg import Log

MOST_SECONDS = 10.0
"""The kernel's log is at most some MiB."""


class LogProbes:
    """Reads the log once for all; of a device with several such probes, each has its answer."""

    def __init__(self, open_log: Callable[[], Log]) -> None:
        self._log = KernelLog(lambda _: None, open_log=open_log)
        self._reasons: dict[str, Mapping[str, str]] = {}

    def watch(self, devices: Iterable[tuple[str, Device]]) -> None:
        """Look for what the probes of these name; opens nothing if none does. Once."""
        alike: dict[str, list[Device]] = {}
        for resource, device in devices:
            for index, bound in enumerate(device.probes):
                if isinstance(bound.check, LogWatch):
                    alone = replace(device, probes=(bound,))
                    alike.setdefault(_name(resource, index), []).append(alone)
        for name, ones in alike.items():
            appeared = {one.key: one.known_since for one in ones if one.known_since is not None}
            self._log.watch(name, ones, appeared=appeared)

    def close(self) -> None:
        """Leave the log alone."""
        self._log.close()

    async def outcome(self, resource: str, index: int, device: Device) -> Outcome:
        """Give what the log says of a device by its probe with this index."""
        begin = time.monotonic()
        name = _name(resource, index)
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._log.caught_up()
        except TimeoutError:
            return Outcome(reason="reading the kernel's log does not end")
        if name not in self._reasons:
            self._reasons[name] = self._log.reasons(name)
        reason = self._reasons[name].get(device.key, "")
        return Outcome(reason=reason, seconds=time.monotonic() - begin)


def _name(resource: str, index: int) -> str:
    return f"{resource} {index}"
