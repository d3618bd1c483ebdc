"""Log lines on stderr, as text or JSON, each with the resource and device that it is about."""

from __future__ import annotations

import json
import logging
import os
import queue
import select
import sys
import threading
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener

from genericdp.printing import printable, printable_lines

resource_name: ContextVar[str] = ContextVar("resource_name", default="")
"""Set once in a plugin's task: every line logged from there carries it."""

_MOST_QUEUED = 4096
"""Lines that wait for the reader of stderr; most have 100 to 200 bytes."""
_FLUSH_SECONDS = 0.5

LEVELS = ("debug", "info", "warning", "error")


def set_up(*, log_format: str, level: str) -> None:
    """Send all log lines to stderr in ``log_format``, text or json."""
    handler = _handler()
    handler.addFilter(add_subject)
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in ("asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _handler() -> logging.Handler:
    try:
        return QueuedLines(sys.stderr.fileno())
    except (AttributeError, OSError):  # in a test, or where there is none
        return logging.StreamHandler(sys.stderr)


class QueuedLines(QueueHandler):
    """Has a thread write lines to a descriptor, so that a reader who stops delays nobody.

    Lines that do not fit into the queue are dropped, and the log says later how many.
    """

    def __init__(self, descriptor: int) -> None:
        lines: queue.Queue[bytes | threading.Event] = queue.Queue(_MOST_QUEUED)
        super().__init__(lines)
        self._lines = lines
        self._writer = _Writer(lines, descriptor, self)
        self._writer.start()

    def prepare(self, record: logging.LogRecord) -> bytes:
        """Return the line: the thread knows nothing of resources."""
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def enqueue(self, record: bytes) -> None:  # type: ignore[override]  # as ``prepare`` returns it
        """Queue a line, or count it."""
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._writer.dropped += 1

    def flush(self) -> None:
        """Wait a moment until all lines are written; logging calls this when the process exits."""
        written = threading.Event()
        with suppress(queue.Full):
            self._lines.put(written, timeout=_FLUSH_SECONDS)
            written.wait(_FLUSH_SECONDS)


class _Writer(QueueListener):
    """The thread that writes queued lines, and how many of them were lost."""

    def __init__(
        self,
        lines: queue.Queue[bytes | threading.Event],
        descriptor: int,
        formatter: logging.Handler,
    ) -> None:
        super().__init__(lines)
        self._lines = lines
        self._descriptor = descriptor
        self._formatter = formatter
        self._told = 0
        self._failed = 0
        self.dropped = 0

    def handle(self, record: bytes | threading.Event) -> None:  # type: ignore[override]
        """Write all lines that wait, at once: each write may cost a wait for Python's lock."""
        batch = [record]
        with suppress(queue.Empty):
            while True:
                batch.append(self._lines.get_nowait())
        lines = [one for one in batch if isinstance(one, bytes)]
        if not self._write(b"".join(lines)):
            self._failed += len(lines)
        elif self._lines.empty():
            self._tell_losses()
        for one in batch:
            if isinstance(one, threading.Event):
                one.set()

    def _tell_losses(self) -> None:
        lost = self.dropped + self._failed - self._told
        if not lost:
            return
        text = f"{lost} lines of the log were lost: nobody has read them"
        fields = {"msg": text, "levelno": logging.WARNING, "levelname": "WARNING"}
        record = logging.makeLogRecord({**fields, "name": __name__})
        if self._write(f"{self._formatter.format(record)}\n".encode()):
            self._told += lost

    def _write(self, data: bytes) -> bool:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True


def flush() -> None:
    """Wait a moment until all lines are written, before anything else is printed to stderr."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def add_subject(record: logging.LogRecord) -> bool:
    """Give a record ``resource`` and ``device``, empty where it is about none; a handler's filter.

    A line from outside a resource's task, or about a device, says so with ``extra``.
    """
    record.resource = getattr(record, "resource", "") or resource_name.get()
    record.device = getattr(record, "device", "")
    return True


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        resource, message = getattr(record, "resource", ""), printable(record.getMessage())
        line = f"{timestamp(record.created)} {record.levelname.lower():7} "
        line += f"{resource}: {message}" if resource else message
        if record.exc_info:
            line += f"\n{printable_lines(self.formatException(record.exc_info))}"
        return line


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
        }
        for subject in ("resource", "device"):
            if name := getattr(record, subject, ""):
                line[subject] = name
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def as_json(message: str, *, level: int = logging.ERROR) -> str:
    """Give a line of the log for what is told past it, at the end of the process."""
    fields = {"msg": message, "levelno": level, "levelname": logging.getLevelName(level)}
    return _JsonLines().format(logging.makeLogRecord({**fields, "name": "genericdp"}))


def timestamp(seconds: float) -> str:
    """Give a time since 1970 as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
