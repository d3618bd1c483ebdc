"""Signal handling: SystemExit before and after the event loop, cancellation while it runs."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager

# This module is imported first of all, before any signal is handled: not even typing (6 ms).
TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from types import FrameType

SIGINT, SIGTERM, SIGHUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
HANDLED = (SIGINT, SIGTERM, SIGHUP)

_SAME_REQUEST_SECONDS = 0.2
"""What arrives within this time is one signal sent twice: to a process and to its group."""

_received: list[signal.Signals] = []
"""Signals for which SystemExit was raised before the event loop was started."""
_after_exit: dict[signal.Signals, signal.Handlers] = {}
"""What handles each signal once one has stopped the process."""


def exit_on(
    numbers: Iterable[signal.Signals], code: int | None = None, *, then: signal.Handlers
) -> None:
    """Raise SystemExit in the main thread when one of these signals arrives.

    ``code`` is the exit code; None: 128 plus the signal's number, as shells report it. ``then``
    handles all further signals.
    """
    numbers = tuple(numbers)

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        # Python discards an exception raised within a finalizer or a weakref callback, as imports
        # have them: the event loop checks this list.
        _received.append(signal.Signals(number))
        # Python would complain there of a signal that has arrived already and is now ignored.
        sys.unraisablehook = lambda _: None
        for one in numbers:
            signal.signal(one, then)
        raise SystemExit(128 + number if code is None else code)

    for one in numbers:
        _after_exit[one] = then
        signal.signal(one, handle)


def ignore(numbers: Iterable[signal.Signals]) -> None:
    """Ignore these signals, also while the interpreter exits."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def not_ignored(numbers: Iterable[signal.Signals]) -> tuple[signal.Signals, ...]:
    """Return the signals that the parent process did not ask to ignore, as nohup does."""
    return tuple(one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN)


@contextmanager
def deferred() -> Iterator[None]:
    """Deliver the signals that arrive within this context when it ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def until_signaled(
    work: Callable[[], Coroutine[None, None, None]],
    *,
    on_repeat: Callable[[signal.Signals], None] = lambda _: None,
    on_hangup: Callable[[], None] | None = None,
) -> signal.Signals | None:
    """Await ``work``, canceled at the first SIGINT, SIGTERM or SIGHUP; return that signal or None.

    ``on_repeat`` is called for a signal that arrives later while it still ends, and
    ``on_hangup``, if given, at SIGHUP, which then does not stop it.
    """
    import asyncio
    import logging

    if _received:
        return _received[0]
    stop = _Stop(asyncio.get_running_loop(), on_repeat=on_repeat)
    with stop.handling(on_hangup):
        try:
            await work()
        except asyncio.CancelledError:
            if stop.signal is None:
                raise
    if stop.signal is not None:
        logging.getLogger(__name__).info("%s: stopped", stop.signal.name)
    return stop.signal


class _Stop:
    """Cancels the current task at the first signal."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_repeat: Callable[[signal.Signals], None],
    ) -> None:
        from asyncio import current_task

        self.signal: signal.Signals | None = None
        """The first signal."""
        self._loop = loop
        self._task = current_task(loop)
        self._on_repeat = on_repeat
        self._time = 0.0

    def _handle(self, number: signal.Signals) -> None:
        if self.signal is None:
            self.signal, self._time = number, self._loop.time()
            if self._task is not None:
                self._task.cancel()
        elif self._loop.time() - self._time > _SAME_REQUEST_SECONDS:
            self._on_repeat(number)

    @contextmanager
    def handling(self, on_hangup: Callable[[], None] | None) -> Iterator[None]:
        """Have the event loop handle the signals that are not ignored, then restore handlers."""
        before = {number: signal.getsignal(number) for number in not_ignored(HANDLED)}
        for number in before:
            self._loop.add_signal_handler(number, self._handle, number)
        if on_hangup is not None:
            self._loop.add_signal_handler(SIGHUP, on_hangup)
        try:
            yield
        finally:
            with deferred():  # removing a handler restores the default one, which kills
                for number, handler in before.items():
                    self._loop.remove_signal_handler(number)
                    stopped = self.signal is not None
                    signal.signal(number, _after_exit.get(number, handler) if stopped else handler)
