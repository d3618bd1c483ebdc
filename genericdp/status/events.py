"""The last lines of the log, for the page."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from genericdp.logs import add_subject
from genericdp.status.model import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 200
_MOST_LETTERS = 2000
"""Of one; no more than the page shows of a text."""
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"))


class Events(logging.Handler):
    """Keeps the last records at info or above, as bounded texts."""

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
    """Keep what is logged within the context, however little the log's own level lets pass."""
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
    if len(message) > _MOST_LETTERS:
        message = f"{message[: _MOST_LETTERS - 1]}…"
    return Event(
        time=record.created,
        level=next((name for least, name in _LEVELS if record.levelno >= least), "info"),
        message=message,
        resource=getattr(record, "resource", ""),
        device=getattr(record, "device", ""),
    )
