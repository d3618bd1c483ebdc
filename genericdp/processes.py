"""Processes as the kernel shows them: whose they are, and signals to all that bear one mark.

A mark is a number that all descendants of a process inherit, as their RLIMIT_LOCKS: Linux has not
used that since 2.4.25, and no ``setsid``, double fork or scrubbed environment loses it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

log = logging.getLogger(__name__)

MARK = 10
"""RLIMIT_LOCKS, which the module ``resource`` does not name."""
UNMARKED, _most = resource.getrlimit(MARK)
LARGEST_MARK = 2**62 if _most == resource.RLIM_INFINITY else max(_most, 1)
NO_NEW_PRIVS = 38
"""PR_SET_NO_NEW_PRIVS: exec grants nothing from now on; cannot be undone."""
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: descendants whose parent dies become our children."""

NICENESS = 10
"""Of what is started: three hundred of them must not starve the one that has to end them."""

_MOST_TIMES = 5
_PROCESSES_AT_ONCE = 256
"""So many are looked at (under 1 ms) before the loop has its turn."""


@contextmanager
def marking(mark: int) -> Iterator[None]:
    """Give this mark to what is forked meanwhile."""
    resource.setrlimit(MARK, (mark, _most))
    try:
        yield
    finally:
        # Not to what it was: markings overlap.
        resource.setrlimit(MARK, (UNMARKED, _most))


def mark_of(pid: int) -> int | None:
    """Give the mark of a process, a dead one too until it is reaped; None if there is none."""
    try:
        return resource.prlimit(pid, MARK)[0]
    except OSError:
        return None


async def signal_marked(mark: int, number: int, *, but: Collection[int] = ()) -> set[int]:
    """Send a signal to every process with a mark that is not dead; gives their pids."""
    reached = set()
    for position, pid in enumerate(await _newest_first(), 1):
        if position % _PROCESSES_AT_ONCE == 0:
            await asyncio.sleep(0)
        # This process itself bears the mark of what it forks just now.
        if pid in but or mark_of(pid) != mark or pid == os.getpid():
            continue
        if not is_dead(pid):
            with suppress(OSError):
                os.kill(pid, number)
            reached.add(pid)
    return reached


async def exterminate(mark: int, more: Callable[[], bool], *, patience: float) -> bool:
    """Kill every process with a mark; gives whether none remains after so many seconds.

    They are stopped first, until there is no new one: a fork bomb would refill what is killed.
    ``more`` reaps, and tells whether some of them are ours. As long as each round finds other
    ones it takes five times as long.
    """
    loop = asyncio.get_running_loop()
    last, deadline = loop.time() + _MOST_TIMES * patience, loop.time() + patience
    pause, seen = 0.001, set[int]()
    while True:
        try:
            stopped = await _strike(mark, more, deadline)
        except OSError as error:  # no descriptor is left to look with
            if loop.time() > deadline:
                log.warning("what a command left cannot be looked for: %s", error)
                return False
            await asyncio.sleep(0.1)
            continue
        if stopped is None:
            return True
        if stopped - seen:  # a bomb on a busy machine: there are fewer each time
            seen |= stopped
            deadline = min(loop.time() + patience, last)
        elif loop.time() > deadline:
            log.warning("%d processes of a command cannot be killed", len(stopped))
            return False
        if loop.time() > last:
            log.warning("a command starts processes faster than they can be killed")
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)


async def _strike(mark: int, more: Callable[[], bool], deadline: float) -> set[int] | None:
    """Stop and kill every process with a mark; gives the stopped ones, None if none is left."""
    left = more()  # a dead one may have started another
    stopped = await _stop(mark, deadline)
    if not left and not stopped:
        # While some die, the kernel's list of our children may lack others.
        return set() if more() else None
    await signal_marked(mark, signal.SIGKILL)
    return stopped


async def _stop(mark: int, deadline: float) -> set[int]:
    stopped: set[int] = set()
    while new := await signal_marked(mark, signal.SIGSTOP, but=stopped):
        stopped |= new
        if asyncio.get_running_loop().time() > deadline:
            break
    return stopped


async def _newest_first() -> list[int]:
    """Give all pids; first those that may be elsewhere in a moment, as a chain of forks is."""
    pids = []
    with os.scandir("/proc") as entries:
        for position, entry in enumerate(entries, 1):
            if position % (8 * _PROCESSES_AT_ONCE) == 0:
                await asyncio.sleep(0)
            if entry.name.isdigit():
                pids.append(int(entry.name))
    return sorted(pids, reverse=True)


def restrict(pid: int, limits: Mapping[int, int], *, niceness: int | None = NICENESS) -> None:
    """Set RLIMIT_… of a process, soft and hard; let it be the first to lack memory or CPU.

    None as niceness leaves that as ours is.
    By the kernel's own choice a thousand small processes would outlive one bigger daemon.
    """
    for what, limit in limits.items():
        _, hard = resource.getrlimit(what)  # which it inherited
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with suppress(OSError):  # it has ended already
            resource.prlimit(pid, what, (most, most))
    if niceness is not None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):
        file = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, b"1000")
        finally:
            os.close(file)


def own_children() -> list[int]:
    """Give the pids of our children, dead ones too; one that dies meanwhile can hide another."""
    own = os.getpid()  # also the id of the thread that gets the orphans
    try:
        return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return children_among_all()


def children_among_all() -> list[int]:
    """Give the same by a look at every process."""
    everyone = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in everyone if parent_of(pid) == os.getpid()]


def parent_of(pid: int) -> int | None:
    """Give the pid of the parent of a process; None if there is no such process."""
    status = _status(pid)
    return int(status[1]) if status else None


def is_dead(pid: int) -> bool:
    """Tell whether a process is gone or a zombie all of whose threads have ended."""
    status = _status(pid)
    return not status or (status[0] in b"ZX" and int(status[17]) <= 1)


def _status(pid: int) -> list[bytes]:
    """Give what follows the name in ``/proc/PID/stat``: state, parent, … (see proc(5))."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def reap(pid: int) -> bool:
    """Reap a child if it is dead; gives whether it is gone."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def control(option: int, value: int) -> str:
    """Call prctl; gives the error's text, empty if there is none."""
    import ctypes  # only the daemon needs it

    number = ctypes.c_ulong
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.prctl(option, number(value), number(0), number(0), number(0))
    return os.strerror(ctypes.get_errno()) if failed else ""


def have_pidfds() -> bool:
    """Tell whether processes can be waited for by descriptor (not before Linux 5.3)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


@contextmanager
def waited_for_by_pidfd(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Wait for children without a thread for each, as Python does by itself from 3.12 on."""
    if sys.version_info >= (3, 12) or not have_pidfds():
        yield
        return
    watcher = asyncio.PidfdChildWatcher()
    watcher.attach_loop(loop)
    asyncio.set_child_watcher(watcher)
    try:
        yield
    finally:
        with warnings.catch_warnings():  # of a child that hangs in the kernel
            warnings.simplefilter("ignore", RuntimeWarning)
            asyncio.set_child_watcher(asyncio.ThreadedChildWatcher())
