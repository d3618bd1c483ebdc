"""Pool of daemon threads for blocking reads that may hang."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from genericdp.host import calls
from genericdp.host.calls import HangsError, Patience, Watched
from genericdp.host.pathwalk import walk
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_IDLE = 4
"""The number of threads that are kept; more are started when more reads run at once or hang."""

AGAIN_AFTER_SECONDS = 0.5
"""Delay before retrying if no thread can be started."""

HANGING_SECONDS = 5.0
"""How long one system call may last, counting only time when the loop was on schedule."""
_idle: list[SimpleQueue[Callable[[], None]]] = []
_shortage = Latch(log)
"""Logs a lack of threads: the last attempt to start one has failed."""


class Work(Watched, asyncio.Future[T]):
    """Work in a thread: its result, and its current activity."""

    has_begun = False

    async def ends(self, seconds: float) -> bool:
        """Wait until it is done; return False if one system call lasts too long.

        The wait for a thread counts only for one call.
        """
        patience = Patience(self, seconds)
        while not self.done():
            await asyncio.wait([self], timeout=patience.pause)
            if patience.is_over():
                return self.done()
        return True


class HangingError(TimeoutError):
    """A read that does not end: it is abandoned, and no other read of the same thing starts
    meanwhile.
    """


async def in_worker(work: Callable[[], T], what: str | Path = "") -> T:
    """Run ``work`` off the loop and return its result or raise its exception.

    A thread that never returns is abandoned: it delays neither others nor, unlike one of
    ``asyncio.to_thread``, the exit. ``what`` is read: a path or a human-readable name. Raise
    HangingError, which is an OSError, if that takes too long or is known to hang; without ``what``,
    wait forever. A result that can be closed is closed if it is no longer awaited.
    """
    if isinstance(what, Path):
        work, what = partial(_at, what, work), str(what)
    if calls.hangs(what):
        raise _hangs(what)
    running = start(work, what, is_one_call=bool(what))
    try:
        if not what or await running.ends(HANGING_SECONDS):
            return await running
        if not running.has_begun:
            running.cancel()
            raise HangingError(errno.EAGAIN, "no thread can be started", what)
        leave_alone(running)
        raise _hangs(running.what)
    except HangsError as error:
        raise _hangs(what or str(error)) from error
    except asyncio.CancelledError:
        if not running.cancel():
            _discard(running)
        raise


def _at(path: Path, work: Callable[[], T]) -> T:
    """Walk to a path, so that the cause of a hang is known, and do the work."""
    with suppress(OSError):  # the working directory may have been removed: the work itself says so
        walk(str(Path.cwd() / path))
    return work()


def leave_alone(running: Work[Any]) -> None:
    """Log that work hangs, and record the cause until the work ends, if ever."""
    all_else = " and all else that lies on its mount" if calls.give_up(running) else ""
    log.warning("reading %s timed out; continuing without it%s", running.what, all_else)

    def ended(running: Work[Any]) -> None:
        log.info("reading %s has ended", running.what)
        _discard(running)

    running.add_done_callback(ended)


def _discard(running: Work[Any]) -> None:
    """Close the result of finished work, if there is one: a file or a socket."""
    if not running.cancelled() and running.exception() is None:
        _close(running.result())


def _close(result: object) -> None:
    close = getattr(result, "close", None)
    if close is not None:
        close()


def _hangs(what: str) -> HangingError:
    return HangingError(errno.ETIMEDOUT, "reading it timed out", what)


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Await something that must be completed, even if the caller is canceled meanwhile."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # a shield only keeps it running
            with suppress(asyncio.CancelledError):  # again: by a timeout, then at the end
                await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what was canceled has failed", exc_info=error)
        raise


def run_in_time(work: Callable[[], T], seconds: float) -> T:
    """Run ``work`` as ``in_worker`` does, but without a loop; raises TimeoutError."""
    return asyncio.run(asyncio.wait_for(in_worker(work), seconds))


def start(work: Callable[[], T], what: str = "", *, is_one_call: bool = False) -> Work[T]:
    """Start ``work`` as ``in_worker`` does; return a future of the running loop.

    ``what`` is a human-readable name of what it reads.

    Each watched system call has to end in time. With ``is_one_call``, the rest of the work counts
    as one call, too; a watched call within it restarts the time.
    """
    loop = asyncio.get_running_loop()
    done: Work[T] = Work(loop=loop)
    done.what = what
    if is_one_call:
        done.since = time.monotonic()

    def job() -> None:
        done.has_begun = True
        calls.watch(done)
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            deliver: Callable[[], None] = partial(_settle, done, done.set_exception, error)
        else:
            deliver = partial(_settle, done, done.set_result, result)
        finally:
            calls.watch(None)
            calls.release(done)
        with suppress(
            RuntimeError
        ):  # the loop has been closed meanwhile: the result is not awaited
            loop.call_soon_threadsafe(deliver)

    _run(job, done)
    return done


def _run(job: Callable[[], None], done: asyncio.Future[T]) -> None:
    """Run a job in a thread; if none can be started, try again later: a limit must not end the
    daemon.
    """
    if done.done():  # it is no longer awaited
        return
    if _idle:
        _idle.pop().put(job)
        return
    jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
    try:
        threading.Thread(target=_serve, args=(jobs,), name="worker", daemon=True).start()
    except (RuntimeError, MemoryError):
        _shortage.update(
            "no thread",
            "no thread can be started: reads of the host wait (a limit on processes or memory"
            " is reached: pids.max, RLIMIT_NPROC, memory.max)",
        )
        done.get_loop().call_later(AGAIN_AFTER_SECONDS, _run, job, done)
        return
    jobs.put(job)
    _shortage.update("", ended="threads can be started again")


def _serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        job = jobs.get()
        job()
        del job  # an idle thread must not keep the result alive
        if len(_idle) >= MAX_IDLE:
            return
        _idle.append(jobs)


def _settle(done: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    if done.done():
        _close(outcome)
    else:
        settle(outcome)
