"""Signal handling: SystemExit before and after the event loop, cancellation while it runs."""

from __future__ import annotations

import signal
import sys
import warnings
from contextlib import contextmanager
from functools import partial

# This module is imported first of all, before any signal is handled: not even typing (6 ms).
TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sized
    from types import FrameType

SIGINT, SIGTERM, SIGHUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
HANDLED = (SIGINT, SIGTERM, SIGHUP)

_SAME_REQUEST_SECONDS = 0.2
"""Signals within this time count as one, sent twice: to a process and to its group."""

_received: list[signal.Signals] = []
"""Signals for which SystemExit was raised before the event loop was started."""
_after_exit: dict[signal.Signals, signal.Handlers] = {}
"""The handler of each signal once one has stopped the process."""


def exit_on(
    numbers: Iterable[signal.Signals], code: int | None = None, *, then: signal.Handlers
) -> None:
    """Raise SystemExit in the main thread when one of these signals arrives.

    ``code`` is the exit code; None for 128 plus the signal's number, as shells report it. ``then``
    handles all further signals.
    """
    numbers = tuple(numbers)

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        # Python discards an exception raised within a finalizer or a weakref callback, such as
        # those of imports, so the event loop checks this list.
        _received.append(signal.Signals(number))
        # Python would complain there of a signal that has arrived already and is now ignored.
        sys.unraisablehook = lambda _: None
        # And of a coroutine that the event loop was about to run.
        warnings.simplefilter("ignore", RuntimeWarning)
        for signal_number in numbers:
            signal.signal(signal_number, then)
        raise SystemExit(128 + number if code is None else code)

    for signal_number in numbers:
        _after_exit[signal_number] = then
        signal.signal(signal_number, handle)


def ignore(numbers: Iterable[signal.Signals]) -> None:
    """Ignore these signals, even while the interpreter exits."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def not_ignored(numbers: Iterable[signal.Signals]) -> tuple[signal.Signals, ...]:
    """Return the signals that the parent process did not ask to ignore, as nohup does."""
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)


@contextmanager
def deferred() -> Iterator[None]:
    """Deliver the signals that arrive within this context when it ends.

    They are not blocked, because that applies to one thread only, and another one would receive
    them.
    """
    from threading import current_thread, main_thread

    if current_thread() is not main_thread():
        yield  # no signal is handled in this thread
        return
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: arrived.append(number))
        for number in not_ignored(HANDLED)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in arrived:
            signal.raise_signal(late)


async def until_signaled(
    work: Callable[[], Coroutine[None, None, None]],
    *,
    on_repeat: Callable[[signal.Signals], None] = lambda _: None,
    on_hangup: Callable[[], None] | None = None,
) -> signal.Signals | None:
    """Await ``work``, canceled at the first SIGINT, SIGTERM or SIGHUP; return that signal or None.

    ``on_repeat`` is called for a signal that arrives later, while the work is ending, and
    ``on_hangup``, if given, at SIGHUP, which then does not stop it.
    """
    import asyncio
    import logging

    if _received:
        return _received[0]
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    first: list[signal.Signals] = []
    since = 0.0

    def stop(number: signal.Signals) -> None:
        nonlocal since
        if not first:
            first.append(number)
            since = loop.time()
            if task is not None:
                task.cancel()
        elif loop.time() - since > _SAME_REQUEST_SECONDS:
            on_repeat(number)

    handlers: dict[signal.Signals, Callable[[], None]] = {
        number: partial(stop, number) for number in not_ignored(HANDLED)
    }
    if on_hangup is not None:
        handlers[SIGHUP] = on_hangup
    with _handling(loop, handlers, first):
        await work()
    if not first:
        return None
    logging.getLogger(__name__).info("%s: stopped", first[0].name)
    return first[0]


@contextmanager
def _handling(
    loop: asyncio.AbstractEventLoop,
    handlers: dict[signal.Signals, Callable[[], None]],
    stopped: Sized,
) -> Iterator[None]:
    """Let the loop handle signals, then restore their handlers, or set those for after a stop.

    The cancellation with which a signal stops the work ends here.
    """
    from asyncio import CancelledError

    before = {number: signal.getsignal(number) for number in handlers}
    for number, handle in handlers.items():
        loop.add_signal_handler(number, handle)
    try:
        yield
    except CancelledError:
        if not stopped:
            raise
    finally:
        # Removing a handler restores the default one, which kills.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, _after_exit.get(number, handler) if stopped else handler)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
