"""Health of all devices under watch, by their probes and the kernel log."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from genericdp.health.kernellog import KernelLog
from genericdp.health.prober import Prober
from genericdp.health.state import DeviceHealth, ProbeState
from genericdp.host.kmsg import open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genericdp.devices.device import Device, Report
    from genericdp.health.prober import ProbeRun
    from genericdp.health.probes import RunProbe
    from genericdp.host.kmsg import Log
    from genericdp.host.root import Root
    from genericdp.process.outcome import Outcome


class Health:
    """Owns the state of each device under watch; ``run`` must run meanwhile.

    ``changed`` is called on the loop whenever the reason of a device has changed, also from within
    ``watch``; ``told`` with each result of a probe.
    """

    def __init__(
        self,
        root: Root,
        *,
        run_probe: RunProbe,
        changed: Callable[[], None],
        told: Callable[[ProbeRun], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
        open_log: Callable[[], Log] = open_log,
    ) -> None:
        self._changed = changed
        self._now = now
        self._devices: dict[str, dict[str, DeviceHealth]] = {}
        """By resource and ID."""
        self._prober = Prober(
            root, self._devices, run_probe=run_probe, changed=self._update, told=told, now=now
        )
        self._log = KernelLog(self._update, open_log=open_log, now=now)

    def watch(self, resource: str, devices: Mapping[str, Device], *, delayed: bool = True) -> None:
        """Watch exactly these devices of a resource (by ID): those that are there now.

        A device that is new here is not healthy before its first results. ``delayed``: it has
        just appeared, and its probes wait for their initial delay.
        """
        now = self._now()
        since = now if resource in self._devices else -math.inf
        known = self._devices.setdefault(resource, {})
        before = {one.device.key: one for one in known.values()}
        for device_id in known.keys() - devices.keys():
            self._forget(known.pop(device_id))
        for device_id, device in devices.items():
            one = known.get(device_id)
            if one is None or not one.is_same(device):
                if one is not None:
                    self._forget(one)
                appeared = _appeared(device, before.get(device.key), since)
                one = DeviceHealth.new(resource, device, now, since=appeared, delayed=delayed)
                known[device_id] = one
            elif one.device.probes == device.probes:  # as mostly
                one.device = device
                continue
            else:
                self._log.forget(one)
                one.set_device(device, now)
            self._log.watch(one)
            self._update(one)
        self._log.follow()

    def forget(self, resource: str) -> None:
        """Stop watching a resource."""
        for one in self._devices.pop(resource, {}).values():
            self._forget(one)
        self._log.follow()

    def reports(self) -> dict[str, dict[str, Report]]:
        """Return a snapshot of the health of all devices, by resource and ID."""
        return {
            resource: {device_id: one.report for device_id, one in devices.items()}
            for resource, devices in self._devices.items()
        }

    def results(self, resource: str) -> dict[str, tuple[Outcome | None, ...]]:
        """Return the latest result of each probe, in the order of the config, by device ID.

        Of ``kernelLog`` it is always None: the log is followed, not run.
        """
        return {
            device_id: tuple(
                state.last if isinstance(state, ProbeState) else None for state in one.states
            )
            for device_id, one in self._devices.get(resource, {}).items()
        }

    async def run(self) -> None:
        """Run probes and follow the kernel log forever."""
        try:
            await self._prober.run()
        finally:
            self._log.close()

    def _update(self, device: DeviceHealth) -> None:
        """Plan and tell what follows from another state of a device."""
        self._prober.plan(device)
        if device.update_report():
            self._changed()

    def _forget(self, device: DeviceHealth) -> None:
        self._log.forget(device)
        device.states = []  # so that what is queued or running of it comes to nothing


def _appeared(device: Device, before: DeviceHealth | None, otherwise: float) -> float:
    """Return since when lines of the kernel log are about a device that is new by its ID.

    It is the same as ``before`` if only its ID has changed.
    """
    if device.known_since is not None:
        return device.known_since
    return before.since if before is not None and before.is_same(device) else otherwise
