"""Work on a loop that has something to clean up when Ctrl-C or a signal ends the command."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from genericdp.signals import ANSWERED, not_ignored

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

T = TypeVar("T")


def run_until_signalled(work: Callable[[], Coroutine[None, None, T]]) -> T:
    """Run ``work`` on a loop of its own, in the main thread, and give its result.

    At SIGINT, SIGTERM or SIGHUP it is cancelled; when it has ended, SystemExit is raised with what
    shells say of such an end: 128 and the signal's number.
    """
    came: list[signal.Signals] = []
    try:
        return asyncio.run(_cancelled_by_signals(work, came))
    except asyncio.CancelledError:
        if came:
            raise SystemExit(128 + came[0]) from None
        raise


async def _cancelled_by_signals(
    work: Callable[[], Coroutine[None, None, T]], came: list[signal.Signals]
) -> T:
    task = asyncio.current_task()

    def answer(number: signal.Signals) -> None:
        came.append(number)
        if task is not None and len(came) == 1:  # one more must not cut the cleaning up short
            task.cancel()

    with _answered_by(answer):
        return await work()


@contextmanager
def _answered_by(answer: Callable[[signal.Signals], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in not_ignored(ANSWERED)}
    for number in before:
        loop.add_signal_handler(number, answer, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
