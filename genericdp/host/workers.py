"""Threads for looks at the host, used again: starting one costs more than a short look."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

log = logging.getLogger(__name__)

MOST_IDLE = 4
"""So many are kept; more come when more looks happen at once, or hang, and end after theirs."""

AGAIN_AFTER_SECONDS = 0.5
"""Where no thread can be started: it waits for one that is idle, or for better times."""

_idle: list[SimpleQueue[Callable[[], None]]] = []
_scarce = False
"""Whether the last attempt to start a thread has failed."""


async def in_worker(work: Callable[[], T]) -> T:
    """Run ``work`` off the loop and give its result or raise its exception.

    A thread that never comes back is left alone: it holds up neither others nor, unlike one of
    ``asyncio.to_thread``, the exit.
    """
    return await start(work)


def start(work: Callable[[], T]) -> asyncio.Future[T]:
    """Start ``work`` as ``in_worker`` does; gives a future of the running loop."""
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

    _hand_over(job, done)
    return done


def _hand_over(job: Callable[[], None], done: asyncio.Future[T]) -> None:
    """Give a job to a thread, later where there is none: a limit must not end the daemon."""
    if done.done():  # nobody waits for it any longer
        return
    try:
        jobs = _idle.pop() if _idle else _new_worker()
    except (RuntimeError, MemoryError):
        _tell_scarce(scarce=True)
        done.get_loop().call_later(AGAIN_AFTER_SECONDS, _hand_over, job, done)
        return
    jobs.put(job)


def _new_worker() -> SimpleQueue[Callable[[], None]]:
    jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
    threading.Thread(target=_serve, args=(jobs,), name="worker", daemon=True).start()
    _tell_scarce(scarce=False)
    return jobs


def _tell_scarce(*, scarce: bool) -> None:
    global _scarce
    if scarce and not _scarce:
        log.warning(
            "no thread can be started: looks at the host wait (a limit on processes or memory is"
            " reached: pids.max, RLIMIT_NPROC, memory.max)"
        )
    elif _scarce and not scarce:
        log.info("threads can be started again")
    _scarce = scarce


def _serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        job = jobs.get()
        job()
        del job  # what it looked at must not live on in an idle thread
        if len(_idle) >= MOST_IDLE:
            return
        _idle.append(jobs)


def _settle(done: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    if not done.done():
        settle(outcome)
