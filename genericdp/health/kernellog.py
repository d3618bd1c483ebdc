"""Probes ``kernelLog``: lines of the kernel's log, and the devices that they make Unhealthy."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.checks import LogWatch
from genericdp.health.logmatch import agree, names_of, rule_of, stems_of
from genericdp.host.kmsg import KernelRecords, open_log
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from genericdp.devices.device import Device
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """A device of a resource."""

    device: Device
    since: float
    watchers: tuple[tuple[Rule, _Watcher], ...]


@dataclass(slots=True)
class _Watched:
    """What a resource watches."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    """By the device's key."""
    index: dict[Rule, dict[Stems, dict[int, _Watcher]]] = field(default_factory=dict)
    """The watchers by what a line must name, and then by identity."""

    def set(self, devices: Iterable[Device], since: Callable[[Device], float]) -> None:
        """Watch exactly these; ``since`` says from when lines count for one that is new here."""
        kept, self.entries = self.entries, {}
        rules: dict[int, Rule] = {}
        for device in devices:
            old = kept.pop(device.key, None)
            if old is not None and old.device is device:  # mostly nothing changes, of thousands
                self.entries[device.key] = old
                continue
            same = old is not None and old.device.identity == device.identity
            entry = _entry(device, old.since if old and same else since(device), rules)
            if old is not None:
                self._leave(old)
            if entry.watchers:
                self._enter(entry)
        for entry in kept.values():
            self._leave(entry)

    def _enter(self, entry: _Entry) -> None:
        self.entries[entry.device.key] = entry
        for rule, watcher in entry.watchers:
            alike = self.index.setdefault(rule, {})
            alike.setdefault(stems_of(watcher.names), {})[id(watcher)] = watcher

    def _leave(self, entry: _Entry) -> None:
        for rule, watcher in entry.watchers:
            alike, stems = self.index[rule], stems_of(watcher.names)
            del alike[stems][id(watcher)]
            if not alike[stems]:
                del alike[stems]
            if not alike:
                del self.index[rule]


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
        first = resource not in self._resources
        since = -math.inf if first else self._now()
        watched = self._resources.setdefault(resource, _Watched())
        watched.set(devices, lambda device: appeared.get(device.key, since))
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
        reasons = dict.fromkeys(watched.entries, self._trouble) if self._trouble else {}
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
                for watcher in index.get(stems, {}).values():
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


def _entry(device: Device, since: float, rules: dict[int, Rule]) -> _Entry:
    """Make an entry; ``rules`` remembers those of probes that devices have in common."""
    watchers: list[tuple[Rule, _Watcher]] = []
    for bound in device.probes:
        if not isinstance(bound.check, LogWatch):
            continue
        rule = rules.get(id(bound.probe)) or rules.setdefault(id(bound.probe), rule_of(bound.check))
        watcher = _Watcher(
            key=device.key,
            names=names_of(bound.check),
            since=since,
            recover_after_seconds=bound.probe.recover_after_seconds,
        )
        watchers.append((rule, watcher))
    return _Entry(device=device, since=since, watchers=tuple(watchers))


def _shortened(line: str) -> str:
    text = printable(line)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
