"""Follower of the kernel log: it hands each line to the devices that the line is about."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.health.logmatch import agree, stems_of
from genericdp.health.state import Line
from genericdp.host.kmsg import KernelRecords, open_log
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.health.logmatch import Names, Rule, Stems
    from genericdp.health.state import DeviceHealth, LogState
    from genericdp.host.kmsg import Log, LogRecord

MOST_NAMED = 4096
"""Limit on the names of no device that are kept for each rule, in case such a device appears."""
MOST_SHOWN = 160
"""Limit on the characters of a line that are quoted."""


@dataclass(slots=True)
class _Followed:
    """A rule, and what it is about; by what is equal for all names that may agree."""

    devices: dict[Stems, dict[LogState, DeviceHealth]] = field(default_factory=dict)
    lines: dict[Stems, dict[Names, Line]] = field(default_factory=dict)
    """The last line with each combination of names."""
    new: set[Stems] = field(default_factory=set)
    """Of the lines that the devices do not have yet."""

    def hand_over(self, stems: Stems, state: LogState, now: float) -> None:
        """Add the lines about a device to its state."""
        for names, line in self.lines.get(stems, {}).items():
            if agree(names, state.names):
                state.add(line, now)


class KernelLog:
    """Follows the log and calls ``changed`` with each device whose state may differ.

    That may be from within ``follow``, if the log cannot be opened. The log is read from its start
    whenever there is a new rule; no line counts twice. ``now`` is the monotonic clock in seconds.
    """

    def __init__(
        self,
        changed: Callable[[DeviceHealth], None],
        *,
        open_log: Callable[[], Log] = open_log,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changed = changed
        self._now = now
        self._records = KernelRecords(self._take, self._paused, open_log=open_log)
        self._rules: dict[Rule, _Followed] = {}
        self._has_new_rule = False
        self._trouble = ""
        self._read = asyncio.Event()
        self._read.set()  # there is nothing to read

    def watch(self, device: DeviceHealth) -> None:
        """Add a device, with the lines that are known; call ``follow`` after the last one."""
        for state in device.log_states:
            if state.rule not in self._rules:
                self._rules[state.rule] = _Followed()
                self._has_new_rule = True
            rule, stems = self._rules[state.rule], stems_of(state.names)
            rule.devices.setdefault(stems, {})[state] = device
            rule.hand_over(stems, state, self._now())
            if self._read.is_set() and not self._has_new_rule:
                state.trouble = self._trouble

    def forget(self, device: DeviceHealth) -> None:
        """Remove a device; call ``follow`` after the last one."""
        for state in device.log_states:
            devices, stems = self._rules[state.rule].devices, stems_of(state.names)
            del devices[stems][state]
            if not devices[stems]:
                del devices[stems]

    def follow(self) -> None:
        """Read what has to be read for the devices that are watched now."""
        self._rules = {rule: one for rule, one in self._rules.items() if one.devices}
        if not self._rules:
            self._records.stop()
            self._read.set()
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

    def _take(self, record: LogRecord) -> None:
        for rule, followed in self._rules.items():
            names = rule.names_in(record.text)
            if names is None:
                continue
            stems = stems_of(names)
            alike = followed.lines.setdefault(stems, {})
            if names not in alike or record.sequence > alike[names].sequence:
                alike[names] = self._line(record)
                followed.new.add(stems)
            if len(followed.lines) > MOST_NAMED:
                _forget_names_of_no_device(followed)

    def _line(self, record: LogRecord) -> Line:
        now = self._now()
        text = printable(record.text)
        if len(text) > MOST_SHOWN:
            text = f"{text[:MOST_SHOWN]}…"
        return Line(
            sequence=record.sequence,
            # The kernel's clock strays from the monotonic one: what is read as it comes is now.
            at=now if self._records.caught_up else min(record.seconds, now),
            text=f"[{record.seconds:.6f}] {text}",
        )

    def _paused(self) -> None:
        """Hand over the new lines, and whether the log can be read."""
        now = self._now()
        for rule in self._rules.values():
            for stems in rule.new:
                for state, device in rule.devices.get(stems, {}).items():
                    rule.hand_over(stems, state, now)
                    self._changed(device)
            rule.new.clear()
        trouble, was_read = self._records.trouble, self._read.is_set()
        is_read = self._records.caught_up or bool(trouble)
        if is_read and (trouble != self._trouble or not was_read):
            self._read.set()
            self._set_trouble(trouble)

    def _set_trouble(self, trouble: str) -> None:
        self._trouble = trouble
        for rule in self._rules.values():
            for alike in rule.devices.values():
                for state, device in alike.items():
                    state.trouble = trouble
                    self._changed(device)


def _forget_names_of_no_device(rule: _Followed) -> None:
    others = [stems for stems in rule.lines if stems not in rule.devices]
    for stems in others[: len(others) // 2 + 1]:
        del rule.lines[stems]
