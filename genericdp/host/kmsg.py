"""The kernel's log: replayed from its start, then followed."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import re
import time
from dataclasses import dataclass
from io import FileIO, RawIOBase
from typing import TYPE_CHECKING

from genericdp.errors import reason_of
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

PATH = "/dev/kmsg"
_DEVICE = os.makedev(1, 11)
MAX_BYTES = 16_384
"""Buffer size: more than any kernel writes for one record."""
SLICE_SECONDS = 0.005
"""After this time the loop gets its turn."""
AGAIN_AFTER_SECONDS = 30.0
"""Delay before an unreadable log is tried again."""
LOSSES_LOGGED_EACH_SECONDS = 60.0

_NUMBER = rb"(\d{1,20})"
_RECORD = re.compile(rb"%b,%b,%b(?:,[^;]*)?;([^\n]*)" % (_NUMBER, _NUMBER, _NUMBER))
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRecord:
    """One message of the log."""

    priority: int
    """Facility times 8, plus level."""
    sequence: int
    """Grows by one with each record since boot."""
    seconds: float
    """Since boot, on the kernel's own clock: close to CLOCK_MONOTONIC, but not steered by NTP."""
    text: str

    @property
    def by_kernel(self) -> bool:
        """Return whether the kernel itself wrote it: user space can use any other facility."""
        return self.priority >> 3 == 0


def parse(data: bytes) -> LogRecord | None:
    """Parse ``PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,…];TEXT``; return None for anything else.

    The lines after the first one are properties of the message. Raises nothing.
    """
    if (found := _RECORD.match(data)) is None:
        return None
    priority, sequence, microseconds = map(int, found.groups()[:3])
    text = _ESCAPE.sub(lambda hit: bytes.fromhex(hit[1].decode()), found[4])
    return LogRecord(
        priority=priority,
        sequence=sequence,
        seconds=microseconds / 1e6,
        text=text.decode(errors="backslashreplace"),
    )


Log = RawIOBase
"""A source of records: each read returns one, or None if there is no new one yet."""


def open_log(path: str = PATH) -> Log:
    """Open the log at its start; raises OSError."""
    flags = os.O_NONBLOCK | os.O_NOCTTY
    file = FileIO(path, opener=lambda path, more: os.open(path, more | flags))
    # Some container runtimes make it a link to the console.
    if os.fstat(file.fileno()).st_rdev != _DEVICE:
        file.close()
        raise OSError(errno.ENODEV, f"{path} is not the character device 1:11")
    return file


class KernelRecords:
    """Calls ``received`` on the loop for each record, and ``paused`` after each few of them.

    If the log cannot be read, ``unreadable`` has the reason, ``paused`` is called, and reading is
    retried every half minute.
    """

    def __init__(
        self,
        received: Callable[[LogRecord], None],
        paused: Callable[[], None],
        *,
        open_log: Callable[[], Log] = open_log,
    ) -> None:
        self.unreadable = Latch(log)
        self.caught_up = False
        """True once the existing log has been reported, so that further records are new."""
        self._received = received
        self._paused = paused
        self._open_log = open_log
        self._log: Log | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._next: int | None = None
        """The sequence number of the next record."""
        self._lost = 0
        self._losses_logged_at = -math.inf

    def start(self) -> None:
        """Begin at the start of the log, even if it has been read already."""
        self.stop()
        self._next = None
        try:
            self._log = self._open_log()
            loop = asyncio.get_running_loop()
            loop.add_reader(self._log.fileno(), self._drain, self._log)
            loop.call_soon(self._drain, self._log)  # an empty log never becomes readable
        except OSError as error:
            self._give_up(error)

    def stop(self) -> None:
        """Stop reading the log."""
        self.caught_up = False
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._log is not None:
            asyncio.get_running_loop().remove_reader(self._log.fileno())
            self._log.close()
            self._log = None

    def _give_up(self, error: OSError) -> None:
        self.stop()
        why = _why_unreadable(error)
        self.unreadable.update(why, "%s", why)
        loop = asyncio.get_running_loop()
        self._retry = loop.call_later(AGAIN_AFTER_SECONDS, self.start)
        self._paused()

    def _drain(self, source: Log) -> None:
        until = time.perf_counter() + SLICE_SECONDS
        while source is self._log and time.perf_counter() < until:  # the callback may stop it
            try:
                data = source.read(MAX_BYTES)
            except BrokenPipeError:
                # overwritten before it was read: the next read returns the oldest remaining record
                continue
            except OSError as error:
                self._give_up(error)
                return
            if data is None:
                self.caught_up = True
                self.unreadable.update("", ended="the kernel's log can be read again")
                break
            if not data:
                self._give_up(OSError(errno.ENODATA, "it has ended"))
                return
            if (record := parse(data)) is not None:
                self._handle(record)
        if source is self._log and not self.caught_up:
            # The time is up. If that was the last record, nothing makes the log readable again.
            asyncio.get_running_loop().call_soon(self._drain, source)
        self._paused()

    def _handle(self, record: LogRecord) -> None:
        if self._next is not None:
            self._lost += max(record.sequence - self._next, 0)
        self._next = record.sequence + 1
        now = time.monotonic()
        # A flood in the kernel's log must not flood our log.
        if self._lost and now - self._losses_logged_at >= LOSSES_LOGGED_EACH_SECONDS:
            log.warning("%d records of the kernel's log were lost: it is overrun", self._lost)
            self._lost, self._losses_logged_at = 0, now
        if record.by_kernel:
            self._received(record)


def _why_unreadable(error: OSError) -> str:
    hint = ""
    if error.errno in {errno.EPERM, errno.EACCES}:
        hint = " (needs CAP_SYSLOG or kernel.dmesg_restrict=0, and a pod a device cgroup with it)"
    elif error.errno == errno.ENOENT:
        hint = f" ({error.filename})"
    return f"the kernel's log cannot be read: {reason_of(error)}{hint}"
