"""Runs the probes of all resources when they are due, only so many at once."""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from genericdp.health.slots import Slots
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genericdp.health.probes import RunProbe
    from genericdp.health.state import DeviceHealth, ProbeState
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


class Prober:
    """Runs what is due of ``devices`` (by resource and ID), which their owner adds and removes."""

    def __init__(
        self,
        root: Root,
        devices: Mapping[str, Mapping[str, DeviceHealth]],
        *,
        run_probe: RunProbe,
        changed: Callable[[DeviceHealth], None],
        told: Callable[[ProbeRun], None],
        now: Callable[[], float],
    ) -> None:
        self._root = root
        self._devices = devices
        self._run_probe = run_probe
        self._changed = changed
        """Called with a device whose state may differ."""
        self._told = told
        self._now = now
        self._queue: list[tuple[float, int, DeviceHealth]] = []
        """A heap; the number makes the device irrelevant to the order."""
        self._numbers = count()
        self._earlier = asyncio.Event()
        """Set when something is due before all that was queued."""
        self._slots = Slots(most_of_owner=MOST_OF_RESOURCE)
        self._busy: set[tuple[str, str]] = set()
        """Resource and ID of devices with a probe that runs or waits for a slot, so that those of
        one device never overlap, not even if it is replaced meanwhile."""

    def plan(self, device: DeviceHealth) -> None:
        """Queue a device for when something of it is due."""
        due = device.next_due(running=_name(device) in self._busy)
        if due < device.queued:
            device.queued = due
            heapq.heappush(self._queue, (due, next(self._numbers), device))
            if self._queue[0][2] is device:
                self._earlier.set()

    async def run(self) -> None:
        """Run probes forever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._earlier.clear()
                for device, state in self._take_due():
                    tasks.create_task(self._probe(device, state), name=f"probe {device.device.id}")
                rest = self._queue[0][0] - self._now() if self._queue else None
                with suppress(TimeoutError):
                    async with asyncio.timeout(rest):
                        await self._earlier.wait()

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
            self.plan(device)
            if expired:
                self._changed(device)
        return due_probes

    async def _probe(self, device: DeviceHealth, state: ProbeState) -> None:
        try:
            async with self._slots.slot(device.resource):
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
        self._changed(device)

    def _end(self, device: DeviceHealth) -> None:
        resource, device_id = _name(device)
        self._busy.discard((resource, device_id))
        if (current := self._devices.get(resource, {}).get(device_id)) is not None:
            self.plan(current)


def _name(device: DeviceHealth) -> tuple[str, str]:
    return device.resource, device.device.id
