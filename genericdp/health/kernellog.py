"""The kernel log: which of its lines are about which devices, and since when each counts."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from genericdp.host.kmsg import KernelRecords, open_log
from genericdp.printing import printable, shortened
from genericdp.reasons import Code, Reason
from genericdp.regex import compiled, search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from genericdp.devices.device import BoundProbe
    from genericdp.health.kinds.kernellog import KernelLogCheck
    from genericdp.host.kmsg import Log, LogRecord

MAX_NAMED = 4096
"""Limit on names without a device that are kept for each rule, in case such a device appears."""
MAX_SHOWN = 160
"""Limit on the characters of a line that are quoted."""

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?")
_HEX = re.compile(r"(?:0x)?[0-9a-f]+(?:[.:-][0-9a-f]+)*")


@dataclass(frozen=True, slots=True)
class Name:
    """A string normalized for comparison."""

    stem: str
    function: str = ""
    """The function of a PCI address; empty for all functions, or for other names."""

    def matches(self, other: Name) -> bool:
        """Check whether both can mean the same device."""
        either = not self.function or not other.function
        return self.stem == other.stem and (either or self.function == other.function)


DeviceNames = tuple[Name, ...]
"""The strings of the groups that ``where`` compares, in the order of the groups' names."""
Stems = tuple[str, ...]


@lru_cache(maxsize=16_384)
def name_of(text: str) -> Name:
    """Normalize a string: hexadecimal numbers to lower case, PCI addresses to one form."""
    lower = text.lower()
    if _HEX.fullmatch(lower) is None:
        return Name(text)
    address = _PCI.fullmatch(lower)
    if address is None:
        return Name(lower)
    domain, bus, slot, function = address.groups(default="")
    return Name(f"{int(domain or '0', 16):04x}:{bus}:{slot}", function)


def stems_of(names: DeviceNames) -> Stems:
    """Return the part that is equal for all names that may match."""
    return tuple(name.stem for name in names)


def names_match(these: DeviceNames, those: DeviceNames) -> bool:
    """Check whether a device and a line can mean the same."""
    return len(these) == len(those) and all(map(Name.matches, these, those))


@dataclass(frozen=True, slots=True)
class LogRule:
    """The part of a probe that is the same for all devices, so that each line is matched only
    once.
    """

    regex: str
    where: tuple[str, ...]
    """Groups, sorted."""
    ignore: tuple[tuple[str, tuple[Name, ...]], ...]

    def names_in(self, line: str) -> DeviceNames | None:
        """Return the names in a line; None if the line does not count."""
        hit = search(self.regex, line)
        if hit is None:
            return None
        groups = compiled(self.regex).groupindex
        for group, ignored in self.ignore:
            text = hit.group(groups[group])
            if text is not None and any(map(name_of(text).matches, ignored)):
                return None
        texts = [hit.group(groups[group]) for group in self.where]
        named = tuple(name_of(text) for text in texts if text is not None)
        return named if len(named) == len(texts) else None


def rule_of(watch: KernelLogCheck[str]) -> LogRule:
    """Return the rule that a probe of one device shares with those of the others."""
    ignore = tuple((group, tuple(map(name_of, watch.ignore[group]))) for group in watch.ignore)
    return LogRule(watch.regex, tuple(sorted(watch.where)), ignore)


def names_of(watch: KernelLogCheck[str]) -> DeviceNames:
    """Return the names that a line about the device must contain."""
    return tuple(name_of(watch.where[group]) for group in sorted(watch.where))


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of the kernel log that matches a rule."""

    sequence: int
    at: float
    """Seconds of the monotonic clock."""
    text: str


@dataclass(slots=True, eq=False)
class LogState:
    """State of a ``kernelLog`` probe: the latest line about the device."""

    bound: BoundProbe
    rule: LogRule
    names: DeviceNames
    since: float
    """Older lines do not count."""
    trouble: Reason | None
    """Why the content of the log is unknown; None if the log has been read."""
    line: str = ""
    due: float | None = None
    """When ``line`` stops counting; None if never."""
    sequence: int = -1
    """The sequence number of the last line that was counted, so that none counts twice."""

    @property
    def reason(self) -> Reason | None:
        """Return why this probe considers the device not healthy; None if it is healthy."""
        return Reason(Code.LOG_LINE, self.line) if self.line else self.trouble

    def add(self, line: Line, now: float) -> None:
        """Count a line about the device."""
        if line.at < self.since or line.sequence <= self.sequence:
            return
        after = self.bound.probe.recover_after_seconds
        self.sequence, self.line = line.sequence, line.text
        self.due = None if after is None else line.at + after
        self.expire(now)

    def expire(self, now: float) -> bool:
        """Drop the line once ``recoverAfterSeconds`` have passed; return whether they have."""
        expired = self.due is not None and self.due <= now
        if expired:
            self.line, self.due = "", None
        return expired


@dataclass(slots=True)
class _Followed:
    """A rule, with its devices and lines by the part that is equal for all names that may match."""

    devices: dict[Stems, dict[LogState, Callable[[], None]]] = field(default_factory=dict)
    lines: dict[Stems, dict[DeviceNames, Line]] = field(default_factory=dict)
    """The last line with each combination of names."""
    new: set[Stems] = field(default_factory=set)
    """The stems of lines that the devices do not have yet."""

    def hand_over(self, stems: Stems, state: LogState, now: float) -> None:
        """Add the lines about a device to its state."""
        for names, line in self.lines.get(stems, {}).items():
            if names_match(names, state.names):
                state.add(line, now)


class KernelLog:
    """Follows the log, and calls back for each state that may have changed.

    It may call back from within ``follow``, if the log cannot be opened. The log is read from its
    start whenever there is a new rule; no line counts twice. ``now`` is the monotonic clock in
    seconds.
    """

    def __init__(
        self,
        *,
        open_log: Callable[[], Log] = open_log,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._records = KernelRecords(self._add_record, self._update_devices, open_log=open_log)
        self._rules: dict[LogRule, _Followed] = {}
        self._has_new_rule = False
        self._trouble: Reason | None = None
        self._read = asyncio.Event()
        self._read.set()  # there is nothing to read

    def watch(self, states: Iterable[LogState], changed: Callable[[], None]) -> None:
        """Add the states of a device, with the known lines; call ``follow`` after the last one."""
        for state in states:
            if state.rule not in self._rules:
                self._rules[state.rule] = _Followed()
                self._has_new_rule = True
            rule, stems = self._rules[state.rule], stems_of(state.names)
            rule.devices.setdefault(stems, {})[state] = changed
            rule.hand_over(stems, state, self._now())
            if self._read.is_set() and not self._has_new_rule:
                state.trouble = self._trouble

    def forget(self, states: Iterable[LogState]) -> None:
        """Remove the states of a device; call ``follow`` after the last one."""
        for state in states:
            devices, stems = self._rules[state.rule].devices, stems_of(state.names)
            del devices[stems][state]
            if not devices[stems]:
                del devices[stems]

    def follow(self) -> None:
        """Read the log as needed for the devices that are watched now."""
        self._rules = {rule: tail for rule, tail in self._rules.items() if tail.devices}
        if not self._rules:
            self.close()
        elif self._has_new_rule:
            self._read.clear()
            self._records.start()
        self._has_new_rule = False

    def close(self) -> None:
        """Stop reading."""
        self._records.stop()
        self._read.set()

    async def caught_up(self) -> None:
        """Wait until the log has been read to its end, or cannot be read."""
        await self._read.wait()

    def _add_record(self, record: LogRecord) -> None:
        for rule, followed in self._rules.items():
            names = rule.names_in(record.text)
            if names is None:
                continue
            stems = stems_of(names)
            alike = followed.lines.setdefault(stems, {})
            if names not in alike or record.sequence > alike[names].sequence:
                alike[names] = self._line(record)
                followed.new.add(stems)
            if len(followed.lines) > MAX_NAMED:
                _forget_names_of_no_device(followed)

    def _line(self, record: LogRecord) -> Line:
        now = self._now()
        text = shortened(printable(record.text), MAX_SHOWN + 1)
        return Line(
            sequence=record.sequence,
            # The kernel's clock drifts from the monotonic one: a new line counts as written now.
            at=now if self._records.caught_up else min(record.seconds, now),
            text=f"[{record.seconds:.6f}] {text}",
        )

    def _update_devices(self) -> None:
        """Hand over the new lines, and whether the log can be read."""
        now = self._now()
        for rule in self._rules.values():
            for stems in rule.new:
                for state, changed in rule.devices.get(stems, {}).items():
                    rule.hand_over(stems, state, now)
                    changed()
            rule.new.clear()
        why, was_read = self._records.unreadable.reason, self._read.is_set()
        trouble = Reason(Code.UNREADABLE, why) if why else None
        is_read = self._records.caught_up or trouble is not None
        if is_read and (trouble != self._trouble or not was_read):
            self._read.set()
            self._trouble = trouble
            for rule in self._rules.values():
                for alike in rule.devices.values():
                    for state, changed in alike.items():
                        state.trouble = trouble
                        changed()


def _forget_names_of_no_device(rule: _Followed) -> None:
    others = [stems for stems in rule.lines if stems not in rule.devices]
    for stems in others[: len(others) // 2 + 1]:
        del rule.lines[stems]
