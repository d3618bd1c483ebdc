"""Probes ``kernelLog``: lines of the kernel's log, and the devices that they make Unhealthy."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.checks import LogWatch
from genericdp.devices.inventory import printable
from genericdp.health.logmatch import agree, names_of, rule_of, stems_of
from genericdp.host.kmsg import KernelRecords, open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from genericdp.devices.device import Device
    from genericdp.devices.inventory import Identity
    from genericdp.health.logmatch import Names, Rule, Stems
    from genericdp.host.kmsg import Log, Record

MOST_NAMED = 4096
"""So many names that are no device's are remembered for each rule, in case one appears."""
MOST_SHOWN = 160
"""So many characters of a line are quoted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Strike:
    """A line that counts."""

    sequence: int
    at: float
    """CLOCK_MONOTONIC, seconds."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Watcher:
    """A probe of one device."""

    key: str
    names: Names
    since: float
    recover_after_seconds: int | None


@dataclass(slots=True)
class _Watched:
    """What a resource watches."""

    since: dict[str, tuple[Identity, float]] = field(default_factory=dict)
    """From when lines about a device count, by key."""
    index: dict[Rule, dict[Stems, list[_Watcher]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Standing:
    """A strike that still makes a device Unhealthy."""

    key: str
    strike: Strike
    until: float


Strikes = dict["Stems", dict["Names", Strike]]
"""The last line of each wording, by what is equal for all that may agree."""


class KernelLog:
    """Follows the log for all resources and calls ``changed`` with one whose reasons may differ.

    That may be from within ``watch``, where the log cannot be opened.

    The log is read from its start whenever something new is to be looked for in it; no line
    counts twice. ``now`` gives CLOCK_MONOTONIC in seconds.
    """

    def __init__(
        self,
        changed: Callable[[str], None],
        *,
        open_log: Callable[[], Log] = open_log,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changed = changed
        self._now = now
        self._records = KernelRecords(self._take, self._paused, open_log=open_log)
        self._resources: dict[str, _Watched] = {}
        self._strikes: dict[Rule, Strikes] = {}
        self._to_tell: set[str] = set()
        self._trouble = ""
        self._read = asyncio.Event()
        self._read.set()  # nothing is to be looked for

    def watch(
        self, resource: str, devices: Iterable[Device], *, appeared: Mapping[str, float] = {}
    ) -> None:
        """Watch for exactly these devices of a resource, those that are there now.

        Lines count that are not older than the device: ``appeared`` says since when (by key,
        CLOCK_MONOTONIC in seconds). Where it does not, all lines count for those that are there
        when the resource is first watched, and those from now on for later ones, also if one
        has taken the place of another.
        """
        before = self._resources.get(resource)
        watched = _watched(devices, before, appeared, self._now())
        self._resources[resource] = watched
        self._follow()

    def forget(self, resource: str) -> None:
        """Watch no more for a resource."""
        self._resources.pop(resource, None)
        self._follow()

    def close(self) -> None:
        """Watch no more."""
        self._resources.clear()
        self._follow()

    def reasons(self, resource: str) -> dict[str, str]:
        """Give why devices are Unhealthy, by key; those that are well are not in it."""
        watched = self._resources.get(resource)
        if watched is None:
            return {}
        reasons = dict.fromkeys(watched.since, self._trouble) if self._trouble else {}
        struck = self._standing(watched, self._now())
        return reasons | {one.key: one.strike.reason for one in struck}

    def next_recovery(self, now: float) -> float | None:
        """Give when the next reason falls away if no further line comes; None: never."""
        untils = (
            one.until
            for watched in self._resources.values()
            for one in self._standing(watched, now)
        )
        first = min(untils, default=math.inf)
        return None if first == math.inf else first

    async def caught_up(self) -> None:
        """Wait until all that the log holds has been looked at, or it cannot be read."""
        await self._read.wait()

    def _follow(self) -> None:
        rules = {rule for watched in self._resources.values() for rule in watched.index}
        fresh = rules - self._strikes.keys()
        self._strikes = {rule: self._strikes.get(rule, {}) for rule in rules}
        if not rules:
            self._records.stop()
            self._trouble = ""
            self._read.set()
        elif fresh or self._trouble:
            self._read.clear()
            self._records.start()

    def _take(self, record: Record) -> None:
        for rule, strikes in self._strikes.items():
            names = rule.names_in(record.text)
            if names is None:
                continue
            stems = stems_of(names)
            alike = strikes.setdefault(stems, {})
            last = alike.get(names)
            if last is None or record.sequence > last.sequence:
                alike[names] = self._strike(record)
            concerned = {
                name
                for name, watched in self._resources.items()
                if stems in watched.index.get(rule, ())
            }
            self._to_tell |= concerned
            if len(strikes) > MOST_NAMED:
                self._forget_names_of_no_device(rule)

    def _strike(self, record: Record) -> Strike:
        now = self._now()
        return Strike(
            sequence=record.sequence,
            # The kernel's clock strays from the monotonic one: what is read as it comes is now.
            at=now if self._records.caught_up else min(record.seconds, now),
            reason=f"[{record.seconds:.6f}] {_shortened(record.text)}",
        )

    def _forget_names_of_no_device(self, rule: Rule) -> None:
        of_devices = {
            stems for watched in self._resources.values() for stems in watched.index.get(rule, ())
        }
        strikes = self._strikes[rule]
        others = [stems for stems in strikes if stems not in of_devices]
        for stems in others[: len(others) // 2 + 1]:
            del strikes[stems]

    def _paused(self) -> None:
        if self._records.caught_up or self._records.trouble:
            self._read.set()
        if self._records.trouble != self._trouble:
            self._trouble = self._records.trouble
            self._to_tell |= self._resources.keys()
        told, self._to_tell = self._to_tell, set()
        for resource in told & self._resources.keys():
            self._changed(resource)

    def _standing(self, watched: _Watched, now: float) -> Iterator[_Standing]:
        for rule, index in watched.index.items():
            # From the lines to the devices: many devices have none.
            for stems, alike in self._strikes[rule].items():
                for watcher in index.get(stems, ()):
                    if (one := _stands(watcher, alike, now)) is not None:
                        yield one


def _stands(watcher: _Watcher, alike: Mapping[Names, Strike], now: float) -> _Standing | None:
    agreeing = [strike for names, strike in alike.items() if agree(names, watcher.names)]
    if not agreeing:
        return None
    last = max(agreeing, key=lambda strike: strike.sequence)
    after = watcher.recover_after_seconds
    until = math.inf if after is None else last.at + after
    if last.at < watcher.since or now >= until:
        return None
    return _Standing(key=watcher.key, strike=last, until=until)


def _watched(
    devices: Iterable[Device],
    before: _Watched | None,
    appeared: Mapping[str, float],
    now: float,
) -> _Watched:
    watched = _Watched()
    since_else = -math.inf if before is None else now
    known = {} if before is None else before.since
    for device in devices:
        watches = [
            (bound.check, bound.probe.recover_after_seconds)
            for bound in device.probes
            if isinstance(bound.check, LogWatch)
        ]
        if not watches:
            continue
        identity, since = known.get(device.key, (None, since_else))
        if identity != device.identity:
            since = appeared.get(device.key, since_else)
        watched.since[device.key] = (device.identity, since)
        for check, recover_after_seconds in watches:
            watcher = _Watcher(
                key=device.key,
                names=names_of(check),
                since=since,
                recover_after_seconds=recover_after_seconds,
            )
            alike = watched.index.setdefault(rule_of(check), {})
            alike.setdefault(stems_of(watcher.names), []).append(watcher)
    return watched


def _shortened(line: str) -> str:
    text = printable(line)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
