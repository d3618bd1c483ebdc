"""What a command wrote, and how it ended: in words for people."""

from __future__ import annotations

import os
import re
import signal
import stat
from dataclasses import dataclass

from genericdp.errors import reason_of
from genericdp.printing import printable, shortened

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
