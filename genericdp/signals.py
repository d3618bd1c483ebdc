"""SIGINT, SIGTERM and SIGHUP, from the first lines of the program to its last."""

from __future__ import annotations

import os
import signal

# This module is imported first of all, before any signal is answered: not even typing (6 ms).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

SIGINT, SIGTERM, SIGHUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
ANSWERED = (SIGINT, SIGTERM, SIGHUP)


def leave_at(numbers: Iterable[signal.Signals], code: int) -> None:
    """End the process at once when such a signal comes: for as long as nothing has been made.

    The exception that Python raises at SIGINT is lost where it hits an import or a finalizer.
    """

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        os._exit(code)

    for number in numbers:
        signal.signal(number, leave)


def ignore(numbers: Iterable[signal.Signals]) -> None:
    """Let such signals pass; also while the interpreter ends."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def not_ignored(numbers: Iterable[signal.Signals]) -> tuple[signal.Signals, ...]:
    """Give those that whoever started us does not want to pass us by, as nohup does."""
    return tuple(one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN)


class Inbox:
    """Keeps each signal until somebody takes it: none is lost before or behind the loop's time."""

    def __init__(self, numbers: Iterable[signal.Signals] = ANSWERED) -> None:
        self._kept: list[signal.Signals] = []
        for number in numbers:
            signal.signal(number, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._kept.append(signal.Signals(number))

    def take(self) -> list[signal.Signals]:
        """Give what has come since the last time."""
        taken = []
        while self._kept:  # more may come meanwhile
            taken.append(self._kept.pop(0))
        return taken
