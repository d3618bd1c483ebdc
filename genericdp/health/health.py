"""Health of all devices under watch: runs their probes when due, follows the kernel log."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from genericdp.errors import Outcome
from genericdp.health import ThreadCheck
from genericdp.health.execution import Slots, run_for
from genericdp.health.kernellog import KernelLog
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.state import DeviceHealth, ProbeState
from genericdp.host.calls import HangsError, give_up, hangs
from genericdp.host.kmsg import open_log
from genericdp.host.workers import start
from genericdp.reasons import kinds_of
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genericdp.devices.device import BoundProbe, Device
    from genericdp.devices.devicelist import Reports
    from genericdp.health.execution import RunCommand
    from genericdp.host.kmsg import Log
    from genericdp.host.root import Root

log = logging.getLogger(__name__)

MAX_PER_RESOURCE = 4
"""Limit on the probes of one resource that run at once."""

MAX_HANGING = 16
"""Limit on the hanging threads of a resource, beyond which it begins no further reads: threads
are limited (``pids.max``), and other resources need some.
"""


class RunProbe(Protocol):
    """Runs a probe of a device once."""

    async def __call__(
        self, bound: BoundProbe, device: Device, *, resource: str, root: Root, before: bytes = b""
    ) -> Outcome:
        """Return the outcome; ``before`` is the digest of an earlier outcome. Raise nothing."""


class Probes:
    """Runs probes; abandons reads of files and nodes that hang."""

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command
        self._hanging: Counter[str] = Counter()
        """How many abandoned reads still have running threads, by resource."""

    async def run(
        self, bound: BoundProbe, device: Device, *, resource: str, root: Root, before: bytes = b""
    ) -> Outcome:
        """Run a probe once, as ``RunProbe``."""
        check, seconds = bound.check, bound.probe.timeout_seconds
        if isinstance(check, ExecCheck):
            return await run_for(
                device,
                check.command,
                resource=resource,
                timeout_seconds=seconds,
                run=self._run_command,
            )
        if not isinstance(check, ThreadCheck):
            raise TypeError(check)
        what, look = check.activity(device), partial(check.look, device, root, before)
        return await self.run_in_thread(what, look, resource=resource, timeout_seconds=seconds)

    async def run_in_thread(
        self, what: str, read: Callable[[], Outcome], *, resource: str, timeout_seconds: float
    ) -> Outcome:
        """Run ``read`` in a thread, and return its outcome with the time that it took.

        ``what`` is its human-readable name; while a read with this name hangs, no other starts.
        """
        if why_not := self._why_not_begun(what, resource):
            return Outcome(reason=why_not)
        began = asked = time.monotonic()
        is_given_up = False

        def work() -> Outcome:
            nonlocal began
            if is_given_up:  # before this thread got any time
                return Outcome()
            began = time.monotonic()
            with suppress(HangsError):
                return read()
            return Outcome(reason=f"{what} timed out")

        result = start(work, what, is_one_call=True)
        try:
            if await result.ends(timeout_seconds):
                return result.result()._replace(seconds=time.monotonic() - began)
        except asyncio.CancelledError:
            result.cancel()
            raise
        if not result.has_begun:
            is_given_up = result.cancel()
            return Outcome(reason=f"{what} cannot be begun: no thread can be started")
        give_up(result, only_call=True)  # even sooner, if the config says so
        self._hanging[resource] += 1

        def ended(result: asyncio.Future[Outcome]) -> None:
            self._hanging[resource] -= 1
            result.exception()  # its result is no longer awaited

        result.add_done_callback(ended)
        return Outcome(reason=f"{what} timed out", seconds=time.monotonic() - asked)

    def _why_not_begun(self, what: str, resource: str) -> str:
        """Return why a read must not begin now; empty if it may."""
        if hangs(what):
            return f"{what} timed out"
        if self._hanging[resource] >= MAX_HANGING:
            return f"{what} cannot be begun: {MAX_HANGING} others of {resource} do not end"
        return ""


class Health:
    """Owns the state of each device under watch; ``run`` must run meanwhile.

    ``changed`` is called on the loop whenever the reasons of a device have changed, also from
    within ``watch``; if only their wording has changed, it is called within ``text_seconds``.
    ``tally`` counts the results of probes.
    """

    def __init__(
        self,
        root: Root,
        *,
        run_probe: RunProbe,
        changed: Callable[[], None],
        tally: Tally | None = None,
        now: Callable[[], float] = time.monotonic,
        open_log: Callable[[], Log] = open_log,
        text_seconds: float = 5.0,
    ) -> None:
        self._root = root
        self._run_probe = run_probe
        self._changed = changed
        self._tally = tally or Tally()
        self._now = now
        self._text_seconds = text_seconds
        self._telling: asyncio.TimerHandle | None = None
        """Calls ``changed`` soon for delayed news; None if there is none."""
        self._devices: dict[str, dict[str, DeviceHealth]] = {}
        """By resource and ID."""
        self._log = KernelLog(open_log=open_log, now=now)
        self._tasks: asyncio.TaskGroup | None = None
        """The tasks of running probes; None if ``run`` has not begun."""
        self._slots = Slots(max_per_owner=MAX_PER_RESOURCE)
        self._file_slots = Slots(max_per_owner=MAX_PER_RESOURCE)
        """Slots for file probes, which do not wait for commands that hang."""
        self._busy: set[tuple[str, str]] = set()
        """Resource and ID of devices with a probe that runs or waits for a slot, so that the
        probes of one device never overlap, even if it is replaced meanwhile.
        """

    def watch(
        self,
        resource: str,
        devices: Mapping[str, Device],
        *,
        delayed: bool = True,
        template: str = "",
    ) -> None:
        """Watch exactly these devices of a resource (by ID), which are present now.

        A new device is not healthy before its first results. The probes of ``delayed`` devices,
        which have just appeared, wait for their initial delay. ``template`` is the name in the
        config that the resource's name results from.
        """
        now = self._now()
        has_appeared = resource in self._devices or (delayed and template)
        since = now if has_appeared else -math.inf
        known = self._devices.setdefault(resource, {})
        before = {known_device.device.identity: known_device for known_device in known.values()}
        for device_id in known.keys() - devices.keys():
            self._forget(known.pop(device_id))
        for device_id, device in devices.items():
            known_device = known.get(device_id)
            if known_device is None or not known_device.is_same(device):
                if known_device is not None:
                    self._forget(known_device)
                appeared = _appeared(device, before.get(device.identity), since)
                known_device = DeviceHealth.new(
                    resource, device, now, since=appeared, delayed=delayed
                )
                known[device_id] = known_device
            elif known_device.device.probes == device.probes:  # the usual case
                known_device.device = device
                continue
            else:
                self._log.forget(known_device.log_states)
                known_device.set_device(device, now)
            self._log.watch(known_device.log_states, partial(self._update, known_device))
            self._update(known_device)
        self._log.follow()

    def forget(self, resource: str) -> None:
        """Stop watching a resource."""
        for device in self._devices.pop(resource, {}).values():
            self._forget(device)
        self._log.follow()

    def reports(self) -> Reports:
        """Return a snapshot of the health of all devices."""
        return {
            resource: {
                (name, device.device.identity): device.reasons for name, device in devices.items()
            }
            for resource, devices in self._devices.items()
        }

    def results(self, resource: str) -> dict[str, tuple[Outcome | None, ...]]:
        """Return the latest result of each probe, in the order of the config, by device ID.

        It is always None for ``kernelLog``: the log is followed, not run.
        """
        return {
            device_id: tuple(
                state.last if isinstance(state, ProbeState) else None for state in device.states
            )
            for device_id, device in self._devices.get(resource, {}).items()
        }

    async def run(self) -> None:
        """Run probes and follow the kernel log forever."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    for device in self._all():
                        self._plan(device)
                    await asyncio.get_running_loop().create_future()
                finally:
                    self._tasks = None  # which accepts no more tasks: all timers end
                    for device in self._all():
                        self._plan(device)
                    if self._telling is not None:
                        self._telling.cancel()
                        self._telling = None
        finally:
            self._log.close()

    def _all(self) -> list[DeviceHealth]:
        return [device for devices in self._devices.values() for device in devices.values()]

    def _update(self, device: DeviceHealth) -> None:
        """Reset the timer of a device whose state has changed, and report the change.

        If only the wording has changed, such as a temperature, that is reported late: it is not
        worth a reconcile.
        """
        self._plan(device)
        before = device.reasons
        device.update_reasons()
        if kinds_of(before) != kinds_of(device.reasons):
            self._tell()
        elif device.reasons != before and self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(self._text_seconds, self._tell)

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._changed()

    def _forget(self, device: DeviceHealth) -> None:
        self._log.forget(device.log_states)
        device.states = []  # so that the result of a running probe is discarded
        self._plan(device)

    def _plan(self, device: DeviceHealth) -> None:
        """Set the timer of a device to the time when a probe or expiry is due."""
        if device.timer is not None:
            device.timer.cancel()
            device.timer = None
        due = device.next_due(running=_name(device) in self._busy)
        if self._tasks is not None and due < math.inf:
            rest, loop = max(0.0, due - self._now()), asyncio.get_running_loop()
            device.timer = loop.call_later(rest, self._run_due, device, self._tasks)

    def _run_due(self, device: DeviceHealth, tasks: asyncio.TaskGroup) -> None:
        """Start the probe that is due, and drop the lines that no longer count."""
        now = self._now()
        expired = device.expire(now)
        if _name(device) not in self._busy and (state := device.due_probe(now)) is not None:
            self._busy.add(_name(device))
            tasks.create_task(self._probe(device, state), name=f"probe {device.device.id}")
        if expired:
            self._update(device)
        else:
            self._plan(device)

    async def _probe(self, device: DeviceHealth, state: ProbeState) -> None:
        try:
            slots = self._file_slots if state.bound.check.only_reads else self._slots
            async with slots.slot(device.resource):
                if state not in device.states:
                    return
                outcome = await self._outcome(device, state)
            if state in device.states:  # the device and its probes are still the same
                index = device.states.index(state)
                device.add(state, outcome, self._now())
                tally = self._tally.of(device.resource)
                tally.probed(index, ok=outcome.ok, seconds=outcome.seconds)
                self._update(device)
        finally:
            resource, device_id = name = _name(device)
            self._busy.discard(name)
            if (current := self._devices.get(resource, {}).get(device_id)) is not None:
                self._plan(current)

    async def _outcome(self, device: DeviceHealth, state: ProbeState) -> Outcome:
        begun, resource = self._now(), device.resource
        try:
            return await self._run_probe(
                state.bound, device.device, resource=resource, root=self._root, before=state.digest
            )
        except Exception as error:
            # A bug in one probe must not end those of all other devices (K6).
            about = {"resource": resource, "device": device.device.id}
            log.exception("unexpected failure", extra=about)
            reason = f"unexpected failure: {error}"
            return Outcome(reason=reason, seconds=self._now() - begun)


def _appeared(device: Device, before: DeviceHealth | None, otherwise: float) -> float:
    """Return the time from which kernel log lines count against a device whose ID is new.

    It is the same as ``before`` if only its ID has changed.
    """
    if device.known_since is not None:
        return device.known_since
    return before.since if before is not None and before.is_same(device) else otherwise


def _name(device: DeviceHealth) -> tuple[str, str]:
    return device.resource, device.device.id
