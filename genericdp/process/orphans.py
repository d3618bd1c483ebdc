"""Processes that commands leave behind: the kernel makes them children of the daemon."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
"""In a second, of start times in /proc."""

NO_NEW_PRIVS = 38
"""PR_SET_NO_NEW_PRIVS: exec grants no privileges from now on; it cannot be undone."""
CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: descendants whose parent dies become children of this process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """A child of this process, dead or alive, in another session."""

    pid: int
    session: int
    started: int
    """Clock ticks since boot."""


def children() -> list[Process]:
    """Return the children in other sessions: no command can leave one in ours."""
    own = os.getpid()  # also the ID of the thread that becomes the parent of orphans
    try:
        text = Path(f"/proc/{own}/task/{own}/children").read_text()
        pids = [int(pid) for pid in text.split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
    found = []
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            # The fields after the command name, see proc_pid_stat(5).
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            parent, session, started = int(fields[1]), int(fields[3]), int(fields[19])
            if parent == own and session != os.getsid(0):
                found.append(Process(pid=pid, session=session, started=started))
    return found


def descendants(pid: int) -> list[int]:
    """Return the process IDs below a process, as far as they can be seen."""
    found = [pid]
    for one in found:  # also those that are appended
        with suppress(OSError):
            for file in Path(f"/proc/{one}/task").glob("*/children"):
                found.extend(int(child) for child in file.read_text().split())
    return found[1:]


def reap(pid: int) -> bool:
    """Reap a child if it is dead; return whether it is gone."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; raise OSError if that fails."""
    import ctypes  # not before it is needed

    number = ctypes.c_ulong
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, number(value), number(0), number(0), number(0)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
