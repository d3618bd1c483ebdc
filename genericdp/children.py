"""The daemon's child processes: spawned, ended with all that they started, and reaped."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from genericdp.errors import is_shortage
from genericdp.processes import (
    LARGEST_MARK,
    MARK,
    NICENESS,
    NO_NEW_PRIVS,
    SUBREAPER,
    UNMARKED,
    control,
    exterminate,
    mark_of,
    marking,
    own_children,
    reap,
    restrict,
    waited_for_by_pidfd,
)

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds within which what is killed must be gone; what is not hangs in the kernel."""

_HURRIED_PATIENCE = 0.5
"""The same once everything ends: what hangs in the kernel must not hold that up."""

_FIRST_PART = 0.25
"""Of the patience, after which what has left a child's process group is looked for anyway."""

_SWEEP_DELAY = 0.05
"""Seconds in which the deaths of many strays become one sweep."""
_BLIND_DELAY = 1.0
"""Seconds until the next try where no look at processes was possible."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Child:
    """A process that was spawned here."""

    process: Process
    mark: int


# From anywhere: another daemon, or what one before us left, must not have the same.
_marks = count(int.from_bytes(os.urandom(7)))
_running: dict[int, Child | None] = {}
"""What has not ended yet, by mark; None while it is being spawned: its pid is not known yet."""
_ends: set[asyncio.Task[bool]] = set()
"""What is being ended just now, whoever waits for that."""
_contained = False
_patience = PATIENCE
_next_sweep: asyncio.TimerHandle | None = None


async def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: int,
    stderr: int,
    cwd: str | None = None,
    limits: Mapping[int, int] | None = None,
    niceness: int | None = NICENESS,
) -> Child:
    """Start a program in a session of its own, without input; ``end`` must follow.

    ``limits`` (RLIMIT_… to both soft and hard) and the niceness (None: ours) hold from right
    after its start. Raises OSError and ValueError as ``subprocess.Popen`` does.
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
        # asyncio has ended the child alone, or has nothing left to wait for it with.
        if isinstance(error, asyncio.CancelledError) or is_shortage(error):
            await _to_its_end(_exterminate(mark))
        if isinstance(error, RuntimeError):  # no thread could be started to wait for it
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
        raise
    _running[mark] = child = Child(process=process, mark=mark)
    restrict(process.pid, {**(limits or {}), MARK: mark}, niceness=niceness)
    return child


def _next_mark() -> int:
    while (mark := next(_marks) % LARGEST_MARK + 1) in _running or mark == UNMARKED:
        pass
    return mark


async def end(child: Child) -> bool:
    """Kill what is left of a child and of all that it started; gives whether nothing remains.

    Takes no time where nothing is left, a little more than ``PATIENCE`` where something cannot be
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
        async with asyncio.timeout(_FIRST_PART * _patience):
            await child.process.wait()
    # What hangs itself may have started others that do not, and that only look for one finds.
    left = child.process.returncode is None or not _contained or child.mark in _sweep()
    if left and not await _exterminate(child.mark):
        return False
    if child.process.returncode is None:  # dead, but asyncio has yet to hear of it
        await child.process.wait()
    return True


async def end_all() -> None:
    """End what still runs, and wait for all that is being ended, whoever has lost patience.

    gRPC cancels the calls of a server that stops, and does not wait for their ends.
    """
    while _ends or any(child is None for child in _running.values()):
        await (asyncio.wait(_ends) if _ends else asyncio.sleep(0.01))
    running = [child for child in _running.values() if child is not None]
    await asyncio.gather(*map(end, running))


def hurry() -> None:
    """Have no more patience than half a second from now on: everything is to end."""
    global _patience
    _patience = _HURRIED_PATIENCE


def abandon() -> None:
    """Kill what runs, each with its process group, and wait for nothing: all ends at once."""
    for child in _running.values():
        if child is not None and child.process.returncode is None:
            with suppress(OSError):
                os.killpg(child.process.pid, signal.SIGKILL)


async def _exterminate(mark: int) -> bool:
    """Kill every process with a mark; gives whether none remains."""
    return await exterminate(mark, lambda: mark in _sweep(), patience=_patience)


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
    """Let no descendant escape while this lasts; in the main thread, in a running loop.

    Orphans become our children, the dead ones are reaped. That nobody gains privileges by exec
    (``no_new_privs``) holds for ever. Within another one it changes nothing.
    """
    global _contained, _patience, _next_sweep
    if _contained:
        yield
        return
    loop = asyncio.get_running_loop()
    _control(NO_NEW_PRIVS, 1)
    _control(SUBREAPER, 1)
    # Not the loop's own way: that would take over the one descriptor that signals wake it by.
    before = signal.signal(signal.SIGCHLD, lambda *_: loop.call_soon_threadsafe(_sweep_soon, loop))
    _contained, _patience = True, PATIENCE
    try:
        with waited_for_by_pidfd(loop):
            yield
    finally:
        signal.signal(signal.SIGCHLD, before)
        if _next_sweep is not None:
            _next_sweep.cancel()
        with suppress(OSError):
            _sweep()
        _next_sweep, _contained = None, False
        _control(SUBREAPER, 0)


def _sweep_soon(loop: asyncio.AbstractEventLoop) -> None:
    global _next_sweep
    if _next_sweep is None:
        _next_sweep = loop.call_later(_SWEEP_DELAY, _swept, loop)


def _swept(loop: asyncio.AbstractEventLoop) -> None:
    global _next_sweep
    _next_sweep = None
    try:
        _sweep()
    except OSError:  # no descriptor is left to look with
        _next_sweep = loop.call_later(_BLIND_DELAY, _swept, loop)


def _control(option: int, value: int) -> None:
    if why := control(option, value):
        log.warning("commands are contained less well: prctl %d failed: %s", option, why)


async def _to_its_end(work: Coroutine[None, None, bool]) -> bool:
    """Await ``work`` even while cancelled; the cancellation goes on afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    _ends.add(task)
    task.add_done_callback(_ends.discard)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
