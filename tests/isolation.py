"""State of the test process that a test may change and must not leave changed."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_OF_PYTEST = "PYTEST_CURRENT_TEST"


@contextmanager
def isolated() -> Iterator[list[str]]:
    """Undo what is done meanwhile to the log, environment, directory and signal handlers.

    Yields the list of what differed, which is filled at the end. What ``main`` sets up for a
    process of its own is undone without a word: log handlers and answers to signals.
    """
    left: list[str] = []
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    environment, directory = _environment(), os.getcwd()
    signals = {number: signal.getsignal(number) for number in _SIGNALS}
    yield left
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, value in sorted(_environment().items() ^ environment.items()):
        left.append(f"environment variable {name}={value}")
        os.environ.pop(name, None)
    os.environ.update(environment)
    if os.getcwd() != directory:
        left.append("another working directory")
        os.chdir(directory)
    for number, handler in signals.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != _OF_PYTEST}
