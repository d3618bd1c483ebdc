"""State of the test process that a test may change and must not leave changed."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.logs import add_subject
from genericdp.status.state import Events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_OF_PYTEST = {"PYTEST_CURRENT_TEST"}


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggerState:
    """Settings of a logger."""

    level: int
    propagate: bool
    disabled: bool
    handlers: tuple[logging.Handler, ...]
    filters: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessState:
    """Logging, environment, working folder, umask and signal handlers at one moment."""

    loggers: Mapping[str, LoggerState]
    environment: Mapping[str, str]
    folder: str
    umask: int
    signals: Mapping[int, Any]

    @classmethod
    def now(cls) -> ProcessState:
        """Return the present state."""
        return cls(
            loggers={one.name: _state_of(one) for one in _loggers()},
            environment=_environment(),
            folder=os.getcwd(),
            umask=_umask(),
            signals={number: signal.getsignal(number) for number in _SIGNALS},
        )

    def restore(self) -> list[str]:
        """Restore this state and return what differed.

        What ``main`` sets up for a process of its own is undone without a word: log handlers,
        the root logger's level, and answers to signals.
        """
        left = self._restore_loggers()
        found = _environment()
        for name in sorted({*found, *self.environment}):
            if found.get(name) != (value := self.environment.get(name)):
                left.append(f"environment variable {name}")
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
        if (folder := _folder()) != self.folder:
            left.append(f"working folder {folder!r}")
            os.chdir(self.folder)
        if (umask := os.umask(self.umask)) != self.umask:
            left.append(f"umask {umask:03o}")
        left += self._restore_signals()
        return left

    def _restore_signals(self) -> list[str]:
        left = []
        for number, handler in self.signals.items():
            if (found_handler := signal.getsignal(number)) != handler:
                if not _is_of_the_project(found_handler):
                    left.append(f"{found_handler} for {signal.strsignal(number)}")
                signal.signal(number, handler)
        return left

    def _restore_loggers(self) -> list[str]:
        left = []
        for logger in _loggers():
            found = _state_of(logger)
            ours = logger.name.split(".")[0] == "genericdp"
            state = self.loggers.get(logger.name, _UNTOUCHED)
            if found == state or not (ours or logger.name in self.loggers):
                continue  # as it was, or of a library that was imported by the test
            added = [one for one in found.handlers if one not in state.handlers]
            logger.handlers[:] = state.handlers
            logger.filters[:] = state.filters
            logger.setLevel(state.level)
            logger.propagate, logger.disabled = state.propagate, state.disabled
            if not all(isinstance(one, logging.NullHandler) or _is_of_main(one) for one in added):
                left.append(f"handlers of {logger.name}: {added}")
            if found.filters != state.filters or found.disabled != state.disabled:
                left.append(f"filters of {logger.name}")
            if ours and found.level != state.level:
                left.append(f"level of {logger.name}")
        return left


_UNTOUCHED = LoggerState(
    level=logging.NOTSET, propagate=True, disabled=False, handlers=(), filters=()
)


def _loggers() -> Iterator[logging.Logger]:
    yield logging.getLogger()
    known = logging.Logger.manager.loggerDict
    yield from (one for one in [*known.values()] if isinstance(one, logging.Logger))


def _state_of(logger: logging.Logger) -> LoggerState:
    return LoggerState(
        level=logger.level,
        propagate=logger.propagate,
        disabled=logger.disabled,
        handlers=tuple(logger.handlers),
        filters=tuple(logger.filters),
    )


def _is_of_main(handler: logging.Handler) -> bool:
    return add_subject in handler.filters and not isinstance(handler, Events)


def _is_of_the_project(handler: object) -> bool:
    return (getattr(handler, "__module__", None) or "").startswith("genericdp.")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OF_PYTEST}


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "that was removed"


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
