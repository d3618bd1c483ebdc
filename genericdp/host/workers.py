"""Threads for what may hang, used again: starting one costs more than a short look."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_IDLE = 4
"""So many are kept; more come when more looks happen at once, or hang, and end after theirs."""

AGAIN_AFTER_SECONDS = 0.5
"""Where no thread can be started: when to try again."""

_idle: list[SimpleQueue[Callable[[], None]]] = []
_scarce = False
"""Whether the last attempt to start a thread has failed."""


async def in_worker(work: Callable[[], T]) -> T:
    """Run ``work`` off the loop and return its result or raise its exception.

    A thread that never comes back is left alone: it holds up neither others nor, unlike one of
    ``asyncio.to_thread``, the exit.
    """
    return await start(work)


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Await what must not be left half done, even if the caller is canceled meanwhile."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])  # a shield only keeps it alive
        raise


def run_in_time(work: Callable[[], T], seconds: float) -> T:
    """Run ``work`` as ``in_worker`` does where no loop runs; raises TimeoutError."""
    return asyncio.run(asyncio.wait_for(in_worker(work), seconds))


def start(work: Callable[[], T]) -> asyncio.Future[T]:
    """Start ``work`` as ``in_worker`` does; return a future of the running loop."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def job() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            deliver: Callable[[], None] = partial(_settle, done, done.set_exception, error)
        else:
            deliver = partial(_settle, done, done.set_result, result)
        with suppress(RuntimeError):  # the loop has been closed meanwhile: nobody waits
            loop.call_soon_threadsafe(deliver)

    _run(job, done)
    return done


def _run(job: Callable[[], None], done: asyncio.Future[T]) -> None:
    """Run a job in a thread, later where none can be had: a limit must not end the daemon."""
    global _scarce
    if done.done():  # nobody waits for it any longer
        return
    if _idle:
        _idle.pop().put(job)
        return
    jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
    try:
        threading.Thread(target=_serve, args=(jobs,), name="worker", daemon=True).start()
    except (RuntimeError, MemoryError):
        if not _scarce:
            log.warning(
                "no thread can be started: looks at the host wait (a limit on processes or memory"
                " is reached: pids.max, RLIMIT_NPROC, memory.max)"
            )
        _scarce = True
        done.get_loop().call_later(AGAIN_AFTER_SECONDS, _run, job, done)
        return
    jobs.put(job)
    if _scarce:
        log.info("threads can be started again")
    _scarce = False


def _serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        job = jobs.get()
        job()
        del job  # what it looked at must not live on in an idle thread
        if len(_idle) >= MAX_IDLE:
            return
        _idle.append(jobs)


def _settle(done: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    if not done.done():
        settle(outcome)
