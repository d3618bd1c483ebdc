"""Log handlers and signal handlers that a test may set and must not leave behind."""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.logs import add_subject
from genericdp.status.events import Events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


@dataclass(frozen=True, slots=True)
class LoggerState:
    """Settings of a logger."""

    level: int = logging.NOTSET
    propagate: bool = True
    disabled: bool = False
    handlers: tuple[logging.Handler, ...] = ()
    filters: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessState:
    """Loggers by name and signal handlers at one moment."""

    loggers: Mapping[str, LoggerState]
    signals: Mapping[int, Any]

    @classmethod
    def now(cls) -> ProcessState:
        """Return the present state."""
        return cls(
            loggers={one.name: _state_of(one) for one in _loggers()},
            signals={number: signal.getsignal(number) for number in _SIGNALS},
        )

    def restore(self) -> list[str]:
        """Restore this state and return what differed.

        What ``main`` sets up for a process of its own is undone without a word: log handlers,
        the root logger's level, and answers to signals.
        """
        left = []
        for number, handler in self.signals.items():
            if (found := signal.getsignal(number)) != handler:
                if not (getattr(found, "__module__", None) or "").startswith("genericdp."):
                    left.append(f"{found} for {signal.strsignal(number)}")
                signal.signal(number, handler)
        for logger in _loggers():
            left += self._restore_logger(logger)
        return left

    def _restore_logger(self, logger: logging.Logger) -> Iterator[str]:
        found, state = _state_of(logger), self.loggers.get(logger.name, LoggerState())
        ours = logger.name.split(".")[0] == "genericdp"
        if found == state or not (ours or logger.name in self.loggers):
            return  # as it was, or of a library that was imported by the test
        added = [one for one in found.handlers if one not in state.handlers]
        logger.handlers[:] = state.handlers
        logger.filters[:] = state.filters
        logger.setLevel(state.level)
        logger.propagate, logger.disabled = state.propagate, state.disabled
        if not all(isinstance(one, logging.NullHandler) or _is_of_main(one) for one in added):
            yield f"handlers of {logger.name}: {added}"
        if found.filters != state.filters or found.disabled != state.disabled:
            yield f"filters of {logger.name}"
        if ours and found.level != state.level:
            yield f"level of {logger.name}"


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
