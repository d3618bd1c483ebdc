"""Why a command could not be started, or how it failed, in words for people."""

from __future__ import annotations

import errno
import os
import signal
import stat
from contextlib import suppress

from genericdp.process.output import decoded

_MOST_INTERPRETER = 256  # bytes of a #! line that the kernel reads


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
    """Say why a program could not be started."""
    if not isinstance(error, OSError):
        return str(error)  # a NUL in an argument
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
    """Tell what the kernel did not find if it was not the program itself."""
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
