"""``genericdp probe``: run the health probes of a config once, now."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from genericdp.cli.apply import discovered
from genericdp.cli.options import add_config, add_host, add_output
from genericdp.devices.devicelist import DeviceList
from genericdp.errors import UsageError
from genericdp.health.commands import POOL
from genericdp.health.kernellog import KernelLog
from genericdp.health.probes import Probes
from genericdp.health.state import DeviceHealth, join_reasons
from genericdp.host.kmsg import open_log
from genericdp.model import FileCheck, KernelLogCheck
from genericdp.printing import plural, print_json, print_lines, printable, shortened, table
from genericdp.process.outcome import Outcome
from genericdp.process.run import Commands
from genericdp.process.signals import until_signaled

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.device import BoundProbe
    from genericdp.devices.devicelist import ListedDevice
    from genericdp.host.kmsg import Log
    from genericdp.host.root import Root

EXAMPLE = (
    "  genericdp probe --config examples/configs/infiniband.yaml\n"
    "  genericdp probe --config serial.yaml example.com/serial --device ttyUSB0 -o json"
)
QUIET_SECONDS = 2.0
"""Only what takes longer tells how far it is: then, and each time twice as long after."""
LOG_SECONDS = 10.0
"""To read the kernel's log, which is at most some MiB."""
IN_A_COPY = "cannot be run: --root is a copy"
NOT_ASKED = "its probes have not been run"
_MOST_LINES = 10
"""So many of the last lines of a command's output are shown."""
_MOST_IDS = 20
_MOST_RUNNING = 3
_HEADING = ("RESOURCE", "DEVICE", "PROBE", "RESULT", "TIME", "REASON")


class State(StrEnum):
    """What the probes make of a device."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNPROBED = "Unprobed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A device on offer."""

    resource: str
    one: ListedDevice

    @property
    def probes(self) -> Sequence[BoundProbe]:
        """What there is to run: nothing for a device that nobody gets anyway."""
        return () if self.one.unhealthy else self.one.device.probes


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """A device, and the outcome of each of its probes; None: it was not run."""

    subject: Subject
    outcomes: tuple[Outcome | None, ...]
    why_not_run: str = ""

    @property
    def state(self) -> State:
        """What the kubelet would be told after a first round of these probes."""
        if self.subject.one.unhealthy or any(one and not one.ok for one in self.outcomes):
            return State.UNHEALTHY
        return State.UNPROBED if None in self.outcomes else State.HEALTHY

    @property
    def reason(self) -> str:
        """Why it is not Healthy; empty if it is."""
        reasons = (
            (bound.name, one.reason if one else self.why_not_run)
            for bound, one in zip(self.subject.probes, self.outcomes, strict=True)
        )
        known = self.subject.one.unhealthy or join_reasons(reasons)
        return known or (NOT_ASKED if self.state is State.UNPROBED else "")

    def as_json(self) -> dict[str, Any]:
        """Return the device with the results of its probes."""
        return {
            "id": self.subject.one.device.id,
            "path": self.subject.one.device.path,
            "state": self.state,
            "reason": self.reason,
            "probes": [
                {
                    "probe": _label(bound),
                    "result": _result(one),
                    "reason": one.reason if one else self.why_not_run,
                    "seconds": round(one.seconds, 6) if one else None,
                    "output": one.output if one else "",
                }
                for bound, one in zip(self.subject.probes, self.outcomes, strict=True)
            ],
        }


def _result(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    return "passed" if outcome.ok else "failed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_config(parser)
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        nargs="?",
        help="only the devices of this resource (default: of all)",
    )
    parser.add_argument("--device", metavar="ID", help="only the device with this id")
    add_host(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Probe and print; 1 if a device is not healthy, or a probe could not be run."""
    decision, _, root = discovered(arguments)
    lists = _selected(decision.lists, arguments.resource, arguments.device)
    probed = probe_once(subjects_of(lists), root)
    if arguments.output == "json":
        devices = {
            name: {"devices": [one.as_json() for one in probed if one.subject.resource == name]}
            for name in lists
        }
        print_json({"resources": devices})
    else:
        print_lines([*_as_text(probed), *_without_probes(lists)])
    return 0 if all(one.state is State.HEALTHY for one in probed) else 1


def _selected(
    lists: Mapping[str, DeviceList], resource: str | None, device: str | None
) -> dict[str, DeviceList]:
    """Return what is asked for; raises UsageError if there is no such thing."""
    if resource is not None and resource not in lists:
        known = _few(lists)
        raise UsageError(f"the config has no resource {resource!r} for this node (it has: {known})")
    among = {name: one for name, one in lists.items() if resource in {None, name}}
    if device is None:
        return among
    found = {
        name: DeviceList(devices={device_id: one})
        for name, listed in among.items()
        for device_id, one in listed.devices.items()
        if device in one.device.shares
    }
    if not found:
        ids = _few(device_id for listed in among.values() for device_id in listed.devices)
        of = f" of {resource}" if resource else ""
        raise UsageError(
            f"no device {device!r}{of} is on offer (there are: {ids}; see genericdp discover)"
        )
    return found


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f", and {len(listed) - _MOST_IDS} more" if len(listed) > _MOST_IDS else ""
    return (", ".join(listed[:_MOST_IDS]) or "none") + more


def subjects_of(lists: Mapping[str, DeviceList]) -> tuple[Subject, ...]:
    """Return all devices on offer, in their order."""
    return tuple(
        Subject(resource=resource, one=one)
        for resource, listed in lists.items()
        for one in listed.devices.values()
    )


def unprobed(subject: Subject) -> Probed:
    """Return what is known of a device if nothing is run."""
    return Probed(subject=subject, outcomes=(None,) * len(subject.probes))


def probe_once(
    subjects: Sequence[Subject], root: Root, *, open_log: Callable[[], Log] = open_log
) -> tuple[Probed, ...]:
    """Run all probes of these devices, in the main thread.

    A signal ends the commands with all that they started; SystemExit is then raised.
    """
    probed: list[Probed] = []

    async def run() -> None:
        probed.extend(await _Round(subjects, root, open_log).run())

    if (stopped_by := asyncio.run(until_signaled(run))) is not None:
        raise SystemExit(128 + stopped_by)
    return tuple(probed)


class _Round:
    """One run of all probes, those of one device one after the other."""

    def __init__(
        self, subjects: Sequence[Subject], root: Root, open_log: Callable[[], Log]
    ) -> None:
        self._subjects = subjects
        self._root = root
        self._commands = Commands()
        self._probes = Probes(self._commands.run)
        self._slots = asyncio.Semaphore(POOL)
        self._log = KernelLog(lambda _: None, open_log=open_log)
        self._health = [_health_of(one) for one in subjects]
        self._running: dict[int, BoundProbe] = {}
        """What runs now, by the device's place among the subjects."""
        self._done = 0

    async def run(self) -> list[Probed]:
        """Run all; a command may not outlive this."""
        async with self._commands:
            try:
                if self._root.is_machine:
                    for one in self._health:
                        self._log.watch(one)
                    self._log.follow()
                async with asyncio.TaskGroup() as tasks:
                    progress = tasks.create_task(self._show_progress(), name="progress")
                    probed = await asyncio.gather(*map(self._probe, range(len(self._subjects))))
                    progress.cancel()
            finally:
                self._log.close()
        return probed

    async def _probe(self, index: int) -> Probed:
        subject = self._subjects[index]
        outcomes = []
        async with self._slots:
            for number, bound in enumerate(subject.probes):
                self._running[index] = bound
                outcomes.append(await self._outcome(index, number, bound))
        self._running.pop(index, None)
        self._done += 1
        why = "" if self._root.is_machine else IN_A_COPY
        return Probed(subject=subject, outcomes=tuple(outcomes), why_not_run=why)

    async def _outcome(self, index: int, number: int, bound: BoundProbe) -> Outcome | None:
        # A command would look at this machine, its log is another one, and plain files for nodes
        # always open.
        if not self._root.is_machine and not isinstance(bound.check, FileCheck):
            return None
        if isinstance(bound.check, KernelLogCheck):
            return await self._logged(self._health[index], number)
        subject = self._subjects[index]
        device = subject.one.device
        return await self._probes.run(bound, device, resource=subject.resource, root=self._root)

    async def _logged(self, health: DeviceHealth, number: int) -> Outcome:
        """Return what the kernel's log, read once for all, holds now."""
        begin = time.monotonic()
        try:
            async with asyncio.timeout(LOG_SECONDS):
                await self._log.caught_up()
        except TimeoutError:
            return Outcome(reason="reading the kernel's log does not end")
        return Outcome(reason=health.states[number].reason, seconds=time.monotonic() - begin)

    async def _show_progress(self) -> None:
        pause = QUIET_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause *= 2
            names = [
                f"{self._subjects[index].one.device.id} ({_label(bound)})"
                for index, bound in self._running.items()
            ]
            more = len(names) - _MOST_RUNNING
            line = (
                f"{self._done} of {len(self._subjects)} devices are done;"
                f" waiting for {', '.join(names[:_MOST_RUNNING])}"
            )
            print_lines([f"{line} and {more} more" if more > 0 else line], file=sys.stderr)


def _health_of(subject: Subject) -> DeviceHealth:
    device = subject.one.device
    since = -math.inf if device.known_since is None else device.known_since
    return DeviceHealth.new(subject.resource, device, time.monotonic(), since=since)


def _label(bound: BoundProbe) -> str:
    """Name a probe; of a file also which, since one that passes gives no reason."""
    check = bound.check
    return printable(f"file {check.path}" if isinstance(check, FileCheck) else bound.name)


def _as_text(probed: Iterable[Probed]) -> Iterator[str]:
    """Yield a table, and below each row the output of a command that failed."""
    rows = [(_HEADING, Outcome())]
    for device in probed:
        name, one = device.subject.resource, device.subject.one
        if one.unhealthy:
            rows.append(((name, one.device.id, "", "failed", "", one.unhealthy), Outcome()))
        for bound, known in zip(device.subject.probes, device.outcomes, strict=True):
            outcome = known or Outcome(reason=device.why_not_run)
            time = f"{known.seconds:.3f} s" if known else ""
            cells = (name, one.device.id, _label(bound), _result(known), time, outcome.reason)
            rows.append((cells, outcome))
    if len(rows) == 1:
        return
    for line, (_, outcome) in zip(table([cells for cells, _ in rows]), rows, strict=True):
        yield line
        yield from _shown_output(outcome)


def _shown_output(outcome: Outcome) -> Iterator[str]:
    """Yield the end of what a failed command wrote, unless the reason has all of it."""
    lines = outcome.output.rstrip().splitlines()
    if outcome.ok or not lines or (len(lines) == 1 and outcome.reason.endswith(lines[0].strip())):
        return
    if (left_out := len(lines) - _MOST_LINES) > 0:
        yield f"    … {plural(left_out, 'line')} before (see -o json)"
    yield from (f"    {shortened(line)}".rstrip() for line in lines[-_MOST_LINES:])


def _without_probes(lists: Mapping[str, DeviceList]) -> Iterator[str]:
    for name, listed in lists.items():
        if not listed.devices:
            yield f"{name} has no devices here (see genericdp discover)"
        elif not any(one.device.probes for one in listed.devices.values()):
            yield f"{name} has no probes"
