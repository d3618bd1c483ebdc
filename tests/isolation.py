"""State of the test process that a test may change and must not leave changed."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from genericdp.logs import add_subject
from genericdp.status.state import Events

_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_OF_PYTEST = "PYTEST_CURRENT_TEST"
_UNTOUCHED: tuple[Any, ...] = (logging.NOTSET, True, False, [], [])


@contextmanager
def isolated() -> Iterator[list[str]]:
    """Undo what is done meanwhile to logging, environment, directory, umask and signal handlers.

    Yields the list of what differed, which is filled at the end. What ``main`` sets up for a
    process of its own is undone without a word: log handlers, the root logger's level, and answers
    to signals.
    """
    left: list[str] = []
    loggers = {logger.name: _settings(logger) for logger in _loggers()}
    environment, directory, umask = _environment(), os.getcwd(), _umask()
    signals = {number: signal.getsignal(number) for number in _SIGNALS}
    yield left
    for logger in _loggers():
        left += _restored(logger, loggers)
    for name, value in sorted(set(_environment().items()) ^ set(environment.items())):
        left.append(f"environment variable {name}={value}")
        os.environ.pop(name, None)
    os.environ.update(environment)
    if (found := _directory()) != directory:
        left.append(f"working directory {found!r}")
        os.chdir(directory)
    if (mask := os.umask(umask)) != umask:
        left.append(f"umask {mask:03o}")
    for number, handler in signals.items():
        if (own := signal.getsignal(number)) != handler:
            if not (getattr(own, "__module__", None) or "").startswith("genericdp."):
                left.append(f"{own} for {signal.strsignal(number)}")
            signal.signal(number, handler)


def _restored(logger: logging.Logger, before: dict[str, tuple[Any, ...]]) -> Iterator[str]:
    """Restore the settings of a logger, and yield what differed."""
    is_ours = logger.name.split(".")[0] == "genericdp"
    was, found = before.get(logger.name, _UNTOUCHED), _settings(logger)
    if found == was or not (is_ours or logger.name in before):
        return  # as it was, or of a library that was imported by the test
    logger.setLevel(was[0])
    logger.propagate, logger.disabled, logger.handlers[:], logger.filters[:] = was[1:]
    added = [handler for handler in found[3] if handler not in was[3]]
    if not all(
        isinstance(handler, logging.NullHandler) or _is_of_main(handler) for handler in added
    ):
        yield f"handlers of {logger.name}: {added}"
    if (found[2], found[4]) != (was[2], was[4]):
        yield f"filters of {logger.name}"
    if is_ours and found[0] != was[0]:
        yield f"level of {logger.name}"


def _loggers() -> Iterator[logging.Logger]:
    yield logging.getLogger()
    known = logging.Logger.manager.loggerDict
    yield from (logger for logger in [*known.values()] if isinstance(logger, logging.Logger))


def _settings(logger: logging.Logger) -> tuple[Any, ...]:
    flags = (logger.level, logger.propagate, logger.disabled)
    return (*flags, [*logger.handlers], [*logger.filters])


def _is_of_main(handler: logging.Handler) -> bool:
    return add_subject in handler.filters and not isinstance(handler, Events)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != _OF_PYTEST}


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "that was removed"


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
