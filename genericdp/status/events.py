"""The latest lines of the log, kept for the page."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.logs import add_subject
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 200
_MOST_CHARACTERS = 2000
"""Of a message; the page shows no more of any text."""
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A line of the log."""

    time: float
    """In seconds since 1970."""
    level: str
    """``info``, ``warning`` or ``error``."""
    message: str
    resource: str = ""
    device: str = ""


class Events(logging.Handler):
    """Keeps the latest records at info or above."""

    def __init__(self, *, most: int = MOST) -> None:
        super().__init__(logging.INFO)
        self.addFilter(add_subject)
        self._kept: deque[Event] = deque(maxlen=most)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        try:
            self._kept.append(_event(record))
        except Exception:  # noqa: BLE001  # as all handlers do
            self.handleError(record)

    def last(self) -> tuple[Event, ...]:
        """Return them, the newest last."""
        self.acquire()
        try:
            return tuple(self._kept)
        finally:
            self.release()


@contextmanager
def follow() -> Iterator[Events]:
    """Keep what is logged within the context, whatever the level of the log itself."""
    events, root = Events(), logging.getLogger()
    level, levels = root.level, [(one, one.level) for one in root.handlers]
    if level > logging.INFO:
        for handler, own in levels:
            handler.setLevel(max(own, level))
        root.setLevel(logging.INFO)
    root.addHandler(events)
    try:
        yield events
    finally:
        root.removeHandler(events)
        root.setLevel(level)
        for handler, own in levels:
            handler.setLevel(own)


def _event(record: logging.LogRecord) -> Event:
    message = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]):
        message = f"{message}: {type(error).__name__}: {error}"
    return Event(
        time=record.created,
        level=next((name for least, name in _LEVELS if record.levelno >= least), "info"),
        message=shortened(message, _MOST_CHARACTERS),
        resource=getattr(record, "resource", ""),
        device=getattr(record, "device", ""),
    )
