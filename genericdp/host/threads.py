"""Work that may hang, in threads that do not keep the process from ending."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T], *, name: str) -> T:
    """Run ``work`` off the loop and give its result or raise its exception.

    Unlike ``asyncio.to_thread``, a thread that never returns does not hold up the exit.
    """
    return await start_daemon_thread(work, name=name)


def start_daemon_thread(work: Callable[[], T], *, name: str) -> asyncio.Future[T]:
    """Start ``work`` off the loop; gives a future of the running loop."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            deliver = partial(_set_exception, done, error)
        else:
            deliver = partial(_set_result, done, result)
        with suppress(RuntimeError):  # the loop has been closed meanwhile: nobody waits
            loop.call_soon_threadsafe(deliver)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


def _set_result(done: asyncio.Future[T], result: T) -> None:
    if not done.cancelled():
        done.set_result(result)


def _set_exception(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.cancelled():
        done.set_exception(error)
