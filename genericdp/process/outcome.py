"""How a command, or another probe, ended: in words for people."""

from __future__ import annotations

import errno
import os
import signal
import stat
from contextlib import suppress
from dataclasses import dataclass

from genericdp.process.output import decoded

_MOST_INTERPRETER = 256  # bytes of a #! line that the kernel reads


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

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return not self.reason


def signal_name(number: int) -> str:
    """Return the name of a signal; a real-time signal has a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def how_it_failed(code: int | None, timeout_seconds: float) -> str:
    """Describe how a command failed; empty if it succeeded. ``None`` means that it timed out."""
    if code is None:
        return f"took longer than {timeout_seconds:g} s"
    if code < 0:
        return f"killed by {signal_name(-code)}"
    return f"exited with {code}" if code else ""


def why_not_started(error: OSError | ValueError, program: str) -> str:
    """Return why a program could not be started."""
    if not isinstance(error, OSError):
        return "an argument or a variable of its environment holds a NUL"
    why = error.strerror or str(error)
    match error.errno:
        case errno.ENOENT:
            return _what_is_missing(program) or why
        case errno.EACCES:
            return _what_forbids(program) or why
        case errno.ENOEXEC:
            return f"{why} (a script needs a first line with #!)"
        case errno.EAGAIN:
            return f"{why} (a limit on processes is reached)"
        case _:
            return why


def _what_is_missing(program: str) -> str:
    """Return what the kernel did not find if it was not the program itself."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123  # a regular file: exec came so far
            first = file.read(_MOST_INTERPRETER).partition(b"\n")[0]
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return "the loader that it needs does not exist"
    interpreter = decoded(first[2:].strip(b" \t").partition(b" ")[0])
    return f"its interpreter does not exist: {interpreter}"


def _what_forbids(program: str) -> str:
    with suppress(OSError):
        mode = os.stat(program).st_mode  # noqa: PTH116
        if stat.S_ISDIR(mode):
            return "it is a directory"
        if not os.access(program, os.X_OK):
            return "it is not executable"
    return ""
