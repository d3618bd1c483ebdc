"""Runs the probes of devices once, now, for people."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from genericdp.cli.logprobes import LogProbes
from genericdp.devices.device import FileRead, LogWatch
from genericdp.health.probes import Probes
from genericdp.health.state import join_reasons
from genericdp.host.kmsg import open_log
from genericdp.printing import print_lines, printable
from genericdp.process.outcome import Outcome
from genericdp.process.run import Commands
from genericdp.process.signals import until_signaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from genericdp.devices.device import BoundProbe, Check
    from genericdp.devices.devicelist import DeviceList, ListedDevice
    from genericdp.host.kmsg import Log
    from genericdp.host.root import Root

MOST_AT_ONCE = 32
"""As many as the daemon runs of all resources together."""
QUIET_SECONDS = 2.0
"""Only what takes longer tells how far it is: then, and each time twice as long after."""
_MOST_NAMED = 3

IN_A_COPY = "cannot be run: --root is a copy"
NOT_ASKED = "its probes have not been run"


class Ending(StrEnum):
    """How a probe ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


class State(StrEnum):
    """What the probes make of a device."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNPROBED = "Unprobed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What one probe said of one device."""

    check: Check
    ending: Ending
    outcome: Outcome

    @property
    def label(self) -> str:
        """Name the probe; of a file also which, since one that passes gives no reason."""
        return label(self.check)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A device on offer."""

    resource: str
    one: ListedDevice


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """A device and what its probes said; one that lacks a node is not probed."""

    subject: Subject
    results: tuple[Result, ...]

    @property
    def state(self) -> State:
        """Give what the kubelet would be told after a first round of these probes."""
        endings = {one.ending for one in self.results}
        if self.subject.one.unhealthy or Ending.FAILED in endings:
            return State.UNHEALTHY
        return State.UNPROBED if Ending.NOT_RUN in endings else State.HEALTHY

    @property
    def reason(self) -> str:
        """Say why it is not Healthy; empty if it is."""
        reasons = ((str(one.check), one.outcome.reason) for one in self.results)
        known = self.subject.one.unhealthy or join_reasons(reasons)
        return known or (NOT_ASKED if self.state is State.UNPROBED else "")


def subjects_of(offers: Mapping[str, DeviceList]) -> tuple[Subject, ...]:
    """Give all devices on offer, in their order."""
    return tuple(
        Subject(resource=resource, one=one)
        for resource, offer in offers.items()
        for one in offer.devices.values()
    )


def label(check: Check) -> str:
    """Name a probe in a line of its own."""
    return printable(f"file {check.path}" if isinstance(check, FileRead) else str(check))


def unprobed(subject: Subject) -> Probed:
    """Give what is known of a device if nothing is run."""
    return Probed(
        subject=subject,
        results=tuple(_not_run(bound.check, "") for bound in _probes(subject)),
    )


def probe_once(
    subjects: Sequence[Subject],
    root: Root,
    *,
    told: Callable[[Probed], None] = lambda _: None,
    open_log: Callable[[], Log] = open_log,
) -> tuple[Probed, ...]:
    """Run all probes of these devices; ``told`` is called for each in order, as soon as it can be.

    In the main thread. A signal ends the commands with all that they started; SystemExit is then
    raised.
    """
    probed: list[Probed] = []

    async def run() -> None:
        probed.extend(await _Round(subjects, root, told, open_log).run())

    if (stopped_by := asyncio.run(until_signaled(run))) is not None:
        raise SystemExit(128 + stopped_by)
    return tuple(probed)


class _Round:
    """One run of all probes, those of one device one after the other."""

    def __init__(
        self,
        subjects: Sequence[Subject],
        root: Root,
        told: Callable[[Probed], None],
        open_log: Callable[[], Log],
    ) -> None:
        self._subjects = subjects
        self._root = root
        self._told = told
        self._open_log = open_log
        self._commands = Commands()
        self._probes = Probes(self._commands.run)
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._probed: dict[int, Probed] = {}
        self._running: dict[int, BoundProbe] = {}
        self._untold = 0
        """The first device that has not been told."""

    async def run(self) -> tuple[Probed, ...]:
        """Run it to its end."""
        log = LogProbes(self._open_log)
        async with self._commands:
            try:
                if self._root.is_machine:
                    log.watch((one.resource, one.one.device) for one in self._subjects)
                async with asyncio.TaskGroup() as tasks:
                    watching = tasks.create_task(self._show_progress(), name="progress")
                    async with asyncio.TaskGroup() as devices:
                        for index, one in enumerate(self._subjects):
                            devices.create_task(self._probe_device(index, one, log))
                    watching.cancel()
            finally:
                log.close()
        return tuple(self._probed[index] for index in range(len(self._subjects)))

    async def _probe_device(self, index: int, subject: Subject, log: LogProbes) -> None:
        results: list[Result] = []
        async with self._slots:
            for number, bound in enumerate(_probes(subject)):
                self._running[index] = bound
                results.append(await self._probe(subject, number, bound, log))
        self._running.pop(index, None)
        self._probed[index] = Probed(subject=subject, results=tuple(results))
        while self._untold in self._probed:
            self._untold += 1
            self._told(self._probed[self._untold - 1])

    async def _probe(
        self, subject: Subject, number: int, bound: BoundProbe, log: LogProbes
    ) -> Result:
        # A command would look at this machine, its log is another one, and plain files for nodes
        # always open.
        if not self._root.is_machine and not isinstance(bound.check, FileRead):
            return _not_run(bound.check, IN_A_COPY)
        device = subject.one.device
        if isinstance(bound.check, LogWatch):
            outcome = await log.outcome(subject.resource, number, device)
        else:
            outcome = await self._probes.run(
                bound, device, resource=subject.resource, root=self._root
            )
        ending = Ending.PASSED if outcome.ok else Ending.FAILED
        return Result(check=bound.check, ending=ending, outcome=outcome)

    async def _show_progress(self) -> None:
        pause = QUIET_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause *= 2
            print_lines([self._progress()], file=sys.stderr, flush=True)

    def _progress(self) -> str:
        names = [
            f"{self._subjects[index].one.device.id} ({label(bound.check)})"
            for index, bound in self._running.items()
        ]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return (
            f"{len(self._probed)} of {len(self._subjects)} devices are done;"
            f" waiting for {', '.join(names[:_MOST_NAMED])}{more}"
        )


def _probes(subject: Subject) -> Iterable[BoundProbe]:
    """Give what there is to run: nothing for a device that nobody gets anyway."""
    return () if subject.one.unhealthy else subject.one.device.probes


def _not_run(check: Check, why: str) -> Result:
    return Result(check=check, ending=Ending.NOT_RUN, outcome=Outcome(reason=why))
