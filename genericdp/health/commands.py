"""Runs the commands of probes and hooks, each contained, within a time limit."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp import children
from genericdp.health.outcome import Outcome
from genericdp.health.output import Pipe, last_line, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GIB = 1024**3

LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 1024,
    # What a process can really use of memory: writable, private.
    resource.RLIMIT_DATA: 4 * GIB,
    # Also counts what is only reserved: a program in Go 1 GiB, CUDA all memory of node and cards.
    resource.RLIMIT_AS: 4096 * GIB,
}

_MOST_INTERPRETER = 256  # bytes of a #! line that the kernel reads

_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
_lingering: dict[_Key, children.Child] = {}
"""Commands that could not be killed: none of them is started a second time meanwhile."""


async def run(argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float) -> Outcome:
    """Run a program to its end, or its time's; nothing that it started remains.

    Its own exit counts, whoever still holds its output. Raises nothing; cancelled, it ends the
    program with all descendants first.
    """
    key = (tuple(argv), tuple(sorted(env.items())))
    if (left := _lingering.get(key)) is not None:
        if children.lingers(left):
            return Outcome(ok=False, reason="its last run still hangs in the kernel")
        del _lingering[key]
    begin = time.monotonic()
    try:
        with Pipe() as pipe:
            child = await children.spawn(
                argv, env=env, stdout=pipe.write_end, stderr=pipe.write_end, cwd="/", limits=LIMITS
            )
            pipe.close_write_end()
            try:
                in_time = await _in_time(child, timeout_seconds)
                seconds = time.monotonic() - begin
            finally:
                if not await children.end(child):
                    _lingering[key] = child
            pipe.take_rest()
    except (OSError, ValueError) as error:
        return Outcome(ok=False, reason=f"cannot be started: {_why(error, argv[0])}")
    how = _how_it_ended(child.process.returncode if in_time else None, timeout_seconds)
    output = pipe.kept.text()
    line = last_line(output) if how else ""
    return Outcome(
        ok=not how, reason=f"{how}: {line}" if line else how, output=output, seconds=seconds
    )


async def _in_time(child: children.Child, timeout_seconds: float) -> bool:
    try:
        async with asyncio.timeout(timeout_seconds):
            await child.process.wait()
    except TimeoutError:
        return child.process.returncode is not None
    return True


def _how_it_ended(code: int | None, timeout_seconds: float) -> str:
    """Give how a command failed; empty if it did not. No code: it was not in time."""
    if code is None:
        return f"took longer than {timeout_seconds:g} s"
    if code >= 0:
        return f"exited with {code}" if code else ""
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"killed by signal {-code}"


def _why(error: OSError | ValueError, program: str) -> str:
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
    interpreter = printable(first[2:].strip(b" \t").partition(b" ")[0])
    return f"its interpreter does not exist: {interpreter}"


def _what_forbids(program: str) -> str:
    with suppress(OSError):
        mode = os.stat(program).st_mode  # noqa: PTH116
        if stat.S_ISDIR(mode):
            return "it is a directory"
        if not os.access(program, os.X_OK):
            return "it is not executable"
    return ""
