"""What a command wrote, and how it ended: in words for people."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import reason_of
from genericdp.printing import printable, shortened

if TYPE_CHECKING:
    from typing import Self

MAX_KEPT = 64 * 1024
"""Bytes of a command's output, half of its start and half of its end."""
_MAX_IN_PIPE = 64 * 1024
_PAUSE_SECONDS = 0.01
"""After each read of what is left out: 6 MB/s."""
_MAX_START = 4096  # bytes of a program, in which its interpreter or loader is named
_LOADER = re.compile(rb"/[^\0]*/ld-[^\0]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How one run of a command, probe or hook ended."""

    reason: str = ""
    """Why it failed, for people; empty if it did not."""
    output: str = ""
    """What it wrote: the first and last 32 KiB. Unprintable characters are escaped, which can make
    it several times longer.
    """
    seconds: float = 0.0
    digest: bytes = b""
    """Of the content that a probe of a file has read, if that must change."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return not self.reason


class Pipe:
    """A pipe that a command writes to and the loop reads from while it runs.

    Of what is written, the first and the last part are kept: ``max_bytes`` in all. What is more is
    read slowly: a command that writes without end waits, instead of costing half a core.
    """

    def __init__(self, max_bytes: int = MAX_KEPT) -> None:
        self.data = bytearray()
        """What is kept; without the middle if that is not all."""
        self._half = max_bytes // 2
        self._left_out = 0
        self._pause: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        try:
            self._loop.add_reader(self._read_end, self.read)
        except OSError:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        self.close_write_end()
        self._stop_reading()
        os.close(self._read_end)

    def close_write_end(self) -> None:
        """Leave the write end to the command alone."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def read(self) -> None:
        """Read what is there, as much as a pipe holds; do not wait for more."""
        with suppress(BlockingIOError):
            chunk = os.read(self._read_end, _MAX_IN_PIPE)
            if not chunk:
                self._loop.remove_reader(self._read_end)
            self.data += chunk
            surplus = len(self.data) - 2 * self._half
            if surplus > 0:
                del self.data[self._half : self._half + surplus]
                self._left_out += surplus
                self._stop_reading()
                self._pause = self._loop.call_later(_PAUSE_SECONDS, self._go_on)

    def _stop_reading(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._read_end)

    def _go_on(self) -> None:
        self._loop.add_reader(self._read_end, self.read)

    def text(self) -> str:
        """Return the output as text, with unprintable bytes escaped."""
        if not self._left_out:
            return decoded(self.data)
        first, last = decoded(self.data[: self._half]), decoded(self.data[self._half :])
        return f"{first}\n[{self._left_out} bytes left out]\n{last}"


def decoded(data: bytes | bytearray) -> str:
    """Decode as UTF-8, and escape all that is not, or that no terminal should see."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() or one in "\t\n" else printable(one) for one in text)


def outcome_of(code: int | None, output: str, *, seconds: float, timeout_seconds: float) -> Outcome:
    """Return how a command ended, with its last line if it failed; ``None``: it timed out."""
    if code is None:
        reason = f"took longer than {timeout_seconds:g} s"
    elif code < 0:
        reason = f"killed by {signal_name(-code)}"
    else:
        reason = f"exited with {code}" if code else ""
    line = shortened(output.rstrip().rpartition("\n")[2].strip())
    if reason and line:
        reason = f"{reason}: {line}"
    return Outcome(reason=reason, output=output, seconds=seconds)


def signal_name(number: int) -> str:
    """Return the name of a signal; a real-time signal has a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def why_not_startable(program: str) -> str:
    """Return why the kernel cannot start a program; empty: it can. The look may hang."""
    try:
        mode = os.stat(program).st_mode  # noqa: PTH116
        if stat.S_ISDIR(mode):
            return "it is a directory"
        if not os.access(program, os.X_OK):
            return "it is not executable"
        with open(program, "rb") as file:  # noqa: PTH123
            start = file.read(_MAX_START)
    except OSError as error:
        return reason_of(error)
    what = "its interpreter"
    if start.startswith(b"#!"):
        needed = start[2:].partition(b"\n")[0].strip(b" \t").partition(b" ")[0]
    else:
        what, found = "the loader that it needs", _LOADER.search(start)
        needed = found[0] if found else b""
    if not needed or os.path.exists(needed):  # noqa: PTH110
        return ""
    return f"{what} does not exist: {decoded(needed)}"
