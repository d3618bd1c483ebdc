"""The daemon's child processes: spawned, ended with all that they started, and reaped."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from genericdp.processes import (
    LARGEST_MARK,
    MARK,
    NO_NEW_PRIVS,
    SUBREAPER,
    UNMARKED,
    control,
    have_pidfds,
    mark_of,
    marking,
    own_children,
    reap,
    restrict,
    signal_marked,
)

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

T = TypeVar("T")

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds within which what is killed must be gone; what is not hangs in the kernel."""

_MOST_PATIENCE = 5 * PATIENCE
"""Seconds for those that start others, as long as each round finds other ones."""

_SWEEP_DELAY = 0.05
"""Seconds in which the deaths of many strays become one sweep."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Child:
    """A process that was spawned here."""

    process: Process
    mark: int


# From anywhere: another daemon, or what one before us left, must not have the same.
_marks = count(int.from_bytes(os.urandom(7)))
_running: dict[int, Child | None] = {}
"""What has not ended yet, by mark; None while it is being spawned: its pid is not known yet."""
_contained = False
_next_sweep: asyncio.TimerHandle | None = None


async def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: int,
    stderr: int,
    cwd: str | None = None,
    limits: Mapping[int, int] | None = None,
) -> Child:
    """Start a program in a session of its own, without input; ``end`` must follow.

    ``limits`` (RLIMIT_… to both soft and hard) hold from right after its start. Raises OSError
    and ValueError as ``subprocess.Popen`` does.
    """
    mark = _next_mark()
    _running[mark] = None
    try:
        # Forks before it first suspends: no other child can get this mark.
        with marking(mark):
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
    except BaseException as error:
        del _running[mark]
        if isinstance(error, asyncio.CancelledError):  # asyncio has ended the child alone
            await _to_its_end(_exterminate(mark))
        if isinstance(error, RuntimeError):  # no thread could be started to wait for it
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
        raise
    _running[mark] = child = Child(process=process, mark=mark)
    restrict(process.pid, {**(limits or {}), MARK: mark})
    return child


def _next_mark() -> int:
    while (mark := next(_marks) % LARGEST_MARK + 1) in _running or mark == UNMARKED:
        pass
    return mark


async def end(child: Child) -> bool:
    """Kill what is left of a child and of all that it started; gives whether nothing remains.

    Takes no time where nothing is left, ``PATIENCE`` twice at most where something cannot be
    killed, and a few times that for a fork bomb; a cancellation waits.
    """
    if child.process.returncode is None:
        return await _to_its_end(_kill(child))
    left = child.mark in _sweep()
    return not left or await _to_its_end(_exterminate(child.mark))


def lingers(child: Child) -> bool:
    """Tell whether there still is something of a child that ``end`` could not end."""
    return child.process.returncode is None or child.mark in _sweep()


async def _kill(child: Child) -> bool:
    with suppress(OSError):
        # No fork escapes this call; what left the process group is next.
        os.killpg(child.process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await child.process.wait()
    left = child.mark in _sweep() if _contained else True
    gone = not left or await _exterminate(child.mark)
    return gone and child.process.returncode is not None


async def _exterminate(mark: int) -> bool:
    """Kill every process with a mark; gives whether none remains.

    They are stopped first, until there is no new one: a fork bomb would refill what is killed.
    """
    loop = asyncio.get_running_loop()
    last = loop.time() + _MOST_PATIENCE
    deadline = loop.time() + PATIENCE
    pause, seen = 0.001, set[int]()
    while True:
        left = mark in _sweep()  # a dead one may have started another
        stopped = await _stop(mark, deadline)
        if not left and not stopped:
            # While some die, the kernel's list of our children may lack others.
            if mark not in _sweep():
                return True
            continue
        await signal_marked(mark, signal.SIGKILL)
        if stopped - seen:  # a bomb on a busy machine: there are fewer each time
            seen |= stopped
            deadline = min(loop.time() + PATIENCE, last)
        elif loop.time() > deadline:
            log.warning("%d processes of a command cannot be killed", len(stopped))
            return False
        if loop.time() > last:
            log.warning("a command starts processes faster than they can be killed")
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)


async def _stop(mark: int, deadline: float) -> set[int]:
    stopped: set[int] = set()
    while new := await signal_marked(mark, signal.SIGSTOP, but=stopped):
        stopped |= new
        if asyncio.get_running_loop().time() > deadline:
            break
    return stopped


def _sweep() -> set[int]:
    """Reap dead strays, kill those whose command has ended; gives the marks of all of them.

    A stray is what a command left to us when it died. What others left to us (we may be PID 1 of
    a container) is reaped only; children of our own session are somebody else's to wait for.
    """
    found: set[int] = set()
    known = _running_pids()
    for pid in own_children() if _contained else ():
        mark = mark_of(pid)
        if mark is None or pid in known or (mark in _running and _running[mark] is None):
            continue
        if mark == UNMARKED:
            _reap_foreign(pid)
            continue
        found.add(mark)
        if not reap(pid) and mark not in _running:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return found


def _running_pids() -> set[int]:
    """Forget the children that have ended; give the pids of the others, which asyncio reaps."""
    pids = set()
    for mark, child in list(_running.items()):
        if child is not None and child.process.returncode is not None:
            del _running[mark]
        elif child is not None:
            pids.add(child.process.pid)
    return pids


def _reap_foreign(pid: int) -> None:
    with suppress(OSError):
        if os.getsid(pid) != os.getsid(0):
            reap(pid)


@contextmanager
def contain() -> Iterator[None]:
    """Let no descendant escape while this lasts; once, in the main thread, in a running loop.

    Orphans become our children, the dead ones are reaped. That nobody gains privileges by exec
    (``no_new_privs``) holds for ever.
    """
    global _contained
    loop = asyncio.get_running_loop()
    _control(NO_NEW_PRIVS, 1)
    _control(SUBREAPER, 1)
    # Not the loop's own way: that would take over the one descriptor that signals wake it by.
    before = signal.signal(signal.SIGCHLD, lambda *_: loop.call_soon_threadsafe(_sweep_soon, loop))
    _contained = True
    try:
        with _waited_for_by_pidfd(loop):
            yield
    finally:
        signal.signal(signal.SIGCHLD, before)
        if _next_sweep is not None:
            _next_sweep.cancel()
        _swept()
        _contained = False
        _control(SUBREAPER, 0)


def _sweep_soon(loop: asyncio.AbstractEventLoop) -> None:
    global _next_sweep
    if _next_sweep is None:
        _next_sweep = loop.call_later(_SWEEP_DELAY, _swept)


def _swept() -> None:
    global _next_sweep
    _next_sweep = None
    _sweep()


def _control(option: int, value: int) -> None:
    if why := control(option, value):
        log.warning("commands are contained less well: prctl %d failed: %s", option, why)


@contextmanager
def _waited_for_by_pidfd(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
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


async def _to_its_end(work: Coroutine[None, None, T]) -> T:
    """Await ``work`` even while cancelled; the cancellation goes on afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
