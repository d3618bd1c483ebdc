"""``genericdp probe``: run the health probes of a config once, now."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from genericdp.cli.apply import (
    discover_once,
    load_resources,
    refuse_unknown,
    unknown_device,
)
from genericdp.cli.output import WITH_WIDE, print_result, progress, shell_words, table
from genericdp.cli.parser import argument, choice
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.root import node_name_of, root_of, root_option, suggestion
from genericdp.devices.devicelist import DeviceList
from genericdp.errors import Outcome
from genericdp.health.execution import POOL
from genericdp.health.health import Probes
from genericdp.health.kernellog import KernelLog
from genericdp.health.state import DeviceHealth
from genericdp.host.kmsg import open_log
from genericdp.printing import first_few, plural, printable, shortened
from genericdp.process.run import Commands
from genericdp.process.signals import until_signaled
from genericdp.status import view

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.device import BoundProbe, Device
    from genericdp.devices.devicelist import Entry
    from genericdp.devices.inventory import Host
    from genericdp.host.cache import HostCache
    from genericdp.host.kmsg import Log
    from genericdp.host.root import Root

EXAMPLE = (
    "  genericdp probe examples/configs/infiniband.yaml\n"
    "  genericdp probe serial.yaml example.com/serial --device ttyUSB0 -o json"
)
LOG_SECONDS = 10.0
"""Time limit for reading the kernel's log, which is at most some MiB."""
NOT_ON_SNAPSHOT = "cannot be run: --root is a copy"
NEEDS_TWO_RUNS = "one run cannot show whether it changes"
_MAX_LINES = 10
"""The number of last lines of a command's output that are shown."""
_MAX_RUNNING = 3
_RESULTS = {"success": "passed", "failure": "failed", "": "not run"}
_HEADING = ("RESOURCE", "DEVICE", "PATH", "PROBE", "RESULT", "TIME", "REASON")


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """A device on offer, and the outcome of each of its probes; None if the probe was not run."""

    resource: str
    listed: Entry[Device]
    labels: view.HardwareLabels = view.UNKNOWN
    outcomes: tuple[Outcome | None, ...] = ()
    why_not_run: str = ""

    @property
    def probes(self) -> Sequence[BoundProbe]:
        """Return the probes to run: none for a device that is Unhealthy anyway."""
        return self.listed.device.probes if self.listed.is_healthy else ()

    @property
    def state(self) -> view.DeviceState:
        """Return the state that the kubelet would get after a first round of these probes."""
        if not self.listed.is_healthy or any(
            outcome and not outcome.ok for outcome in self.outcomes
        ):
            return view.DeviceState.UNHEALTHY
        was_run = all(outcome for _, outcome in self._outcomes())
        return view.DeviceState.HEALTHY if was_run else view.DeviceState.UNPROBED

    @property
    def reason(self) -> str:
        """Return why it is not Healthy, or a note on what a single run cannot show, or an empty
        string.
        """
        said = ((bound.check.name, self._said(outcome)) for bound, outcome in self._outcomes())
        texts = dict.fromkeys(f"{name}: {text}" for name, text in said if text)
        known = self.listed.text or "; ".join(texts)
        return known or (view.NOT_PROBED if self.state is view.DeviceState.UNPROBED else "")

    def _outcomes(self) -> Iterator[tuple[BoundProbe, Outcome | None]]:
        return zip_longest(self.probes, self.outcomes)

    def _said(self, outcome: Outcome | None) -> str:
        if outcome is None:
            return self.why_not_run
        return outcome.reason or (NEEDS_TWO_RUNS if outcome.digest else "")

    @property
    def document(self) -> view.Document:
        """The device for ``-o json``, with the results of its probes."""
        probes = [
            {
                **view.probe(f"{bound.check.kind}-{number}", outcome),
                "reason": self._said(outcome),
                "label": printable(bound.check.label),
                "seconds": None if outcome is None else round(outcome.seconds, 6),
                "output": "" if outcome is None else outcome.output,
            }
            for number, (bound, outcome) in enumerate(self._outcomes())
        ]
        return view.device(
            self.listed, self.labels, state=self.state, reason=self.reason, probes=probes
        )


def unprobed(lists: Mapping[str, DeviceList], host: Host) -> list[Probed]:
    """Return all devices on offer, in order, with what is known without running a probe."""
    return [
        Probed(
            resource=resource, listed=entry, labels=view.hardware_of(entry.device.identity, host)
        )
        for resource, listed in lists.items()
        for entry in listed.devices.values()
    ]


def documents(lists: Mapping[str, DeviceList], probed: Iterable[Probed]) -> list[view.Document]:
    """Return the resources for ``-o json``, with the probed devices."""
    devices = {(device.resource, device.listed.device.id): device for device in probed}

    def document_of(resource: str, entry: Entry[Device]) -> view.Document:
        return devices[resource, entry.device.id].document

    return [
        view.resource(name, listed, partial(document_of, name)) for name, listed in lists.items()
    ]


def who_probes(devices: Iterable[view.Document], arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a paragraph that names the command for devices that were not probed, if any can be."""
    is_unprobed = any(device["state"] is view.DeviceState.UNPROBED for device in devices)
    if is_unprobed and not root_option(arguments):
        command = shell_words(["genericdp", *suggestion("probe", arguments)])
        yield from ("", f"not probed: {command} runs the probes")


ARGUMENTS = {
    "RESOURCE": argument("only the devices of this resource (default: of all)", nargs="?"),
    "--device": argument("only the device with this id", metavar="ID"),
    "--output": choice("how to print; wide adds the path of each device", WITH_WIDE),
}


def execute(arguments: argparse.Namespace) -> int:
    """Probe and print; 1 if a device is not healthy, or a probe could not be run."""
    (_, here), node_name = load_resources(arguments), node_name_of(arguments)
    root = root_of(arguments)

    def look(host: HostCache) -> tuple[Mapping[str, DeviceList], list[Probed]]:
        lists = discover_once(here, host, node_name).lists
        selected = _selected(lists, arguments.resource, arguments.device)
        return selected, unprobed(selected, host)

    lists, devices = run_skipping_hangs(root, look)
    probed = probe_once(devices, root)
    found = documents(lists, probed)
    lines = chain(_as_text(probed, wide=arguments.output == "wide"), _without_probes(lists))
    print_result({"resources": found}, lines, arguments.output)
    return 0 if all(device.state is view.DeviceState.HEALTHY for device in probed) else 1


def _selected(
    lists: Mapping[str, DeviceList], resource: str | None, device: str | None
) -> dict[str, DeviceList]:
    """Return the lists with the requested device; raise UsageError if it does not exist."""
    if resource is not None:
        refuse_unknown(resource, lists)
    among = {name: listed for name, listed in lists.items() if resource in {None, name}}
    if device is None:
        return among
    found = {
        name: DeviceList(entries=(entry,))
        for name, listed in among.items()
        for device_id, entry in listed.devices.items()
        if device in entry.device.shares
    }
    if not found:
        ids = (device_id for listed in among.values() for device_id in listed.devices)
        raise unknown_device(device, ids, resource)
    return found


def probe_once(
    devices: Sequence[Probed], root: Root, *, open_log: Callable[[], Log] = open_log
) -> list[Probed]:
    """Run all probes of these devices, in the main thread.

    A signal ends the commands and all processes that they started, and raises SystemExit.
    """
    probed: list[Probed] = []

    async def run() -> None:
        probed.extend(await _Round(devices, root, open_log).run())

    if (stopped_by := asyncio.run(until_signaled(run))) is not None:
        raise SystemExit(128 + stopped_by)
    return probed


class _Round:
    """One run of all probes, those of one device one after the other."""

    def __init__(self, devices: Sequence[Probed], root: Root, open_log: Callable[[], Log]) -> None:
        self._devices = devices
        self._root = root
        self._commands = Commands()
        self._probes = Probes(self._commands.run)
        self._slots = asyncio.Semaphore(POOL)
        self._log = KernelLog(open_log=open_log)
        self._running: dict[tuple[str, str], str] = {}
        """The probes that run now, by resource and ID."""
        self._done = 0

    async def run(self) -> list[Probed]:
        """Run all probes; no command may outlive this call."""
        health = [_health_of(device) for device in self._devices]
        async with self._commands:
            try:
                if self._root.is_machine:
                    for state in health:
                        self._log.watch(state.log_states, lambda: None)
                    self._log.follow()
                with progress(self._how_far):
                    probed = await asyncio.gather(*map(self._probe, self._devices, health))
            finally:
                self._log.close()
        return probed

    async def _probe(self, device: Probed, health: DeviceHealth) -> Probed:
        key, outcomes = (device.resource, device.listed.device.id), []
        async with self._slots:
            for number, bound in enumerate(device.probes):
                self._running[key] = printable(bound.check.label)
                outcomes.append(await self._outcome(device, bound, health, number))
        self._running.pop(key, None)
        self._done += 1
        why = "" if self._root.is_machine else NOT_ON_SNAPSHOT
        return replace(device, outcomes=tuple(outcomes), why_not_run=why)

    async def _outcome(
        self, device: Probed, bound: BoundProbe, health: DeviceHealth, number: int
    ) -> Outcome | None:
        # A command would read this machine, whose log is a different one, and plain files for nodes
        # always open.
        if not self._root.is_machine and not bound.check.only_reads:
            return None
        if not bound.check.is_run:
            return await self._logged(health, number)
        return await self._probes.run(
            bound, device.listed.device, resource=device.resource, root=self._root
        )

    async def _logged(self, health: DeviceHealth, number: int) -> Outcome:
        """Return the current content of the kernel's log, which is read once for all devices."""
        begin = time.monotonic()
        try:
            async with asyncio.timeout(LOG_SECONDS):
                await self._log.caught_up()
        except TimeoutError:
            return Outcome(reason="reading the kernel's log timed out")
        return Outcome(
            reason=str(health.states[number].reason or ""), seconds=time.monotonic() - begin
        )

    def _how_far(self) -> str:
        running = list(self._running.items())  # a thread other than the loop's asks
        names = [f"{device_id} ({label})" for (_, device_id), label in running]
        return (
            f"{self._done} of {len(self._devices)} devices are done;"
            f" waiting for {first_few(names, _MAX_RUNNING)}"
        )


def _health_of(probed: Probed) -> DeviceHealth:
    device = probed.listed.device
    since = -math.inf if device.known_since is None else device.known_since
    return DeviceHealth.new(probed.resource, device, time.monotonic(), since=since)


def _as_text(probed: Iterable[Probed], *, wide: bool) -> Iterator[str]:
    """Yield a table, and below each row the output of a command that failed."""
    rows: list[tuple[str, ...]] = [_HEADING]
    below = [""]
    for device in probed:
        start = (device.resource, device.listed.device.id, device.listed.device.path)
        if not device.listed.is_healthy:
            rows.append((*start, "", "failed", "", device.listed.text))
            below.append("")
        for result in device.document["probes"]:
            seconds = result["seconds"]
            time = "" if seconds is None else f"{seconds:.3f} s"
            cells = (result["label"], _RESULTS[result["result"]], time, result["reason"])
            rows.append((*start, *cells))
            below.append("" if result["result"] == "success" else result["output"])
    if not wide:
        rows = [(*row[:2], *row[3:]) for row in rows]
    if len(rows) > 1:
        for line, row, output in zip(table(rows), rows, below, strict=True):
            yield line
            yield from _shown_output(output, row[-1])


def _shown_output(output: str, reason: str) -> Iterator[str]:
    """Yield the end of a failed command's output, unless the reason has all of it."""
    lines = output.rstrip().splitlines()
    if not lines or (len(lines) == 1 and reason.endswith(lines[0].strip())):
        return
    if (left_out := len(lines) - _MAX_LINES) > 0:
        yield f"    … {plural(left_out, 'line')} before (see -o json)"
    yield from (f"    {shortened(line)}".rstrip() for line in lines[-_MAX_LINES:])


def _without_probes(lists: Mapping[str, DeviceList]) -> Iterator[str]:
    for name, listed in lists.items():
        if not listed.devices:
            yield f"{name} has no devices here (see genericdp discover)"
        elif not any(entry.device.probes for entry in listed.devices.values()):
            yield f"{name} has no probes"
