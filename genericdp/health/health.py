"""Health of all devices under watch: runs their probes when due, follows the kernel log."""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from genericdp.devices.device import FileRead
from genericdp.health.kernellog import KernelLog
from genericdp.health.slots import Slots
from genericdp.health.state import DeviceHealth, ProbeState
from genericdp.host.kmsg import open_log
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genericdp.devices.device import Device, Report
    from genericdp.health.probes import RunProbe
    from genericdp.host.kmsg import Log
    from genericdp.host.root import Root

log = logging.getLogger(__name__)

MOST_OF_RESOURCE = 4
"""Limit on the probes of one resource that run at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeRun:
    """One result, for whoever counts them."""

    resource: str
    device_id: str
    index: int
    """Which probe of the resource, in the order of the config."""
    outcome: Outcome


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
        self._root = root
        self._run_probe = run_probe
        self._changed = changed
        self._told = told
        self._now = now
        self._devices: dict[str, dict[str, DeviceHealth]] = {}
        """By resource and ID."""
        self._log = KernelLog(self._update, open_log=open_log, now=now)
        self._queue: list[tuple[float, int, DeviceHealth]] = []
        """A heap of what is due when; the number makes the device irrelevant to the order."""
        self._numbers = count()
        self._earlier = asyncio.Event()
        """Set when something is due before all that was queued."""
        self._slots = Slots(most_of_owner=MOST_OF_RESOURCE)
        self._file_slots = Slots(most_of_owner=MOST_OF_RESOURCE)
        """For probes of files, which wait for no command that hangs."""
        self._busy: set[tuple[str, str]] = set()
        """Resource and ID of devices with a probe that runs or waits for a slot, so that those of
        one device never overlap, not even if it is replaced meanwhile."""

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
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._earlier.clear()
                    for device, state in self._take_due():
                        work = self._probe(device, state)
                        tasks.create_task(work, name=f"probe {device.device.id}")
                    rest = self._queue[0][0] - self._now() if self._queue else None
                    with suppress(TimeoutError):
                        async with asyncio.timeout(rest):
                            await self._earlier.wait()
        finally:
            self._log.close()

    def _update(self, device: DeviceHealth) -> None:
        """Plan and tell what follows from another state of a device."""
        self._plan(device)
        if device.update_report():
            self._changed()

    def _forget(self, device: DeviceHealth) -> None:
        self._log.forget(device)
        device.states = []  # so that what is queued or running of it comes to nothing

    def _plan(self, device: DeviceHealth) -> None:
        """Queue a device for when something of it is due."""
        due = device.next_due(running=_name(device) in self._busy)
        if due < device.queued:
            device.queued = due
            heapq.heappush(self._queue, (due, next(self._numbers), device))
            if self._queue[0][2] is device:
                self._earlier.set()

    def _take_due(self) -> list[tuple[DeviceHealth, ProbeState]]:
        """Return the probes that are due."""
        now = self._now()
        due_probes = []
        while self._queue and self._queue[0][0] <= now:
            due, _, device = heapq.heappop(self._queue)
            if due != device.queued:
                continue  # it was queued for an earlier time since
            device.queued = math.inf
            if not device.states:
                continue  # it is no longer watched
            expired = device.expire(now)
            state = None if _name(device) in self._busy else device.due_probe(now)
            if state is not None:
                self._busy.add(_name(device))
                due_probes.append((device, state))
            self._plan(device)
            if expired:
                self._update(device)
        return due_probes

    async def _probe(self, device: DeviceHealth, state: ProbeState) -> None:
        try:
            slots = self._file_slots if isinstance(state.bound.check, FileRead) else self._slots
            async with slots.slot(device.resource):
                if state in device.states:
                    self._add(device, state, await self._outcome(device, state))
        finally:
            self._end(device)

    async def _outcome(self, device: DeviceHealth, state: ProbeState) -> Outcome:
        begun, resource = self._now(), device.resource
        try:
            return await self._run_probe(
                state.bound, device.device, resource=resource, root=self._root
            )
        except Exception as error:
            # A mistake of ours in one probe must not end those of all other devices (K6).
            about = {"resource": resource, "device": device.device.id}
            log.exception("unexpected failure", extra=about)
            reason = f"unexpected failure: {error}"
            return Outcome(reason=reason, seconds=self._now() - begun)

    def _add(self, device: DeviceHealth, state: ProbeState, outcome: Outcome) -> None:
        """Take a result, unless the device or its probes are others by now."""
        if state not in device.states:
            return
        index = device.states.index(state)
        device.add(state, outcome, self._now())
        self._told(
            ProbeRun(
                resource=device.resource, device_id=device.device.id, index=index, outcome=outcome
            )
        )
        self._update(device)

    def _end(self, device: DeviceHealth) -> None:
        resource, device_id = _name(device)
        self._busy.discard((resource, device_id))
        if (current := self._devices.get(resource, {}).get(device_id)) is not None:
            self._plan(current)


def _appeared(device: Device, before: DeviceHealth | None, otherwise: float) -> float:
    """Return since when lines of the kernel log are about a device that is new by its ID.

    It is the same as ``before`` if only its ID has changed.
    """
    if device.known_since is not None:
        return device.known_since
    return before.since if before is not None and before.is_same(device) else otherwise


def _name(device: DeviceHealth) -> tuple[str, str]:
    return device.resource, device.device.id
