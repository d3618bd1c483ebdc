"""Log lines on stderr: text lines name their resource, JSON lines also the device."""

from __future__ import annotations

import json
import logging
import os
import queue
import select
import sys
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any

from genericdp.printing import printable

resource_name: ContextVar[str] = ContextVar("resource_name", default="")
"""The resource of a plugin's task, which all of its log lines have."""

_MAX_QUEUED = 4096
"""Maximum number of lines that wait for the reader of stderr; most have 100 to 200 bytes."""
_FLUSH_SECONDS = 0.5

LEVELS = ("debug", "info", "warning", "error")


def set_up(*, log_format: str, level: str) -> None:
    """Send all log lines to stderr in ``log_format``, text or json."""
    handler: logging.Handler
    try:
        handler = QueuedLines(sys.stderr.fileno())
    except (AttributeError, OSError, RuntimeError):  # no descriptor, or no thread can be started
        handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(add_subject)
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines())
    handler.setLevel(level.upper())
    # The status shows lines at info, whatever the level of the log.
    logging.basicConfig(level=min(handler.level, logging.INFO), handlers=[handler], force=True)
    for library in ("asyncio", "grpc", "httpx2", "httpcore2"):
        logging.getLogger(library).setLevel(logging.WARNING)


class QueuedLines(QueueHandler):
    """Writes lines to a descriptor in a thread, so that a reader that stops does not delay the
    daemon. If too many lines wait, new ones are dropped, and the log says later how many.
    """

    def __init__(self, descriptor: int) -> None:
        # Not queue.Queue: it deadlocks if a finalizer logs while the same thread puts or gets.
        self._lines: queue.SimpleQueue[logging.LogRecord | threading.Event] = queue.SimpleQueue()
        super().__init__(self._lines)
        self.descriptor = descriptor
        self.dropped = 0
        _LineWriter(self._lines, self).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a line, or count it."""
        if self._lines.qsize() < _MAX_QUEUED:
            self._lines.put(record)
        else:
            self.dropped += 1

    def flush(self) -> None:
        """Wait a moment until all lines are written; logging calls this when the process exits."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(_FLUSH_SECONDS)


class _LineWriter(QueueListener):
    """Writes queued lines. A handler would do, but ``logging.shutdown`` waits for its lock."""

    def __init__(self, lines: queue.SimpleQueue[Any], source: QueuedLines) -> None:
        super().__init__(lines)
        self._lines, self._source = lines, source

    def handle(self, record: logging.LogRecord | threading.Event) -> None:
        if isinstance(record, threading.Event):
            record.set()
            return
        self._write(record.msg)  # it has been formatted
        lost = self._source.dropped if self._lines.empty() else 0
        if lost:
            text = f"{lost} log lines were dropped: stderr was not being read"
            fields = {"msg": text, "levelno": logging.WARNING, "levelname": "WARNING"}
            self._source.dropped -= lost
            self._write(
                self._source.format(logging.makeLogRecord({**fields, "name": __name__})), lost
            )

    def _write(self, line: str, lines: int = 1) -> None:
        """Write a line, or count it as lost."""
        data = f"{line}\n".encode(errors="backslashreplace")
        try:
            while data:
                try:
                    data = data[os.write(self._source.descriptor, data) :]
                except BlockingIOError:
                    select.select([], [self._source.descriptor], [])
        except OSError:
            self._source.dropped += lines


def flush() -> None:
    """Wait a moment until all lines are written, before anything else is printed to stderr."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def add_subject(record: logging.LogRecord) -> bool:
    """A filter that sets ``resource`` and ``device`` of a record, or empty strings.

    Lines from outside a resource's task, or about a device, pass these in ``extra``.
    """
    record.resource = getattr(record, "resource", "") or resource_name.get()
    record.device = getattr(record, "device", "")
    return not _is_canceled_call(record)


def _is_canceled_call(record: logging.LogRecord) -> bool:
    """Return whether gRPC reports a call that was canceled before it began, as at the end.

    gRPC logs that as a failure, with a traceback.
    """
    if not (record.exc_info and record.name.startswith("grpc.")):
        return False
    from asyncio import CancelledError  # 20 ms, which commands without gRPC need not wait

    return isinstance(record.exc_info[1], CancelledError)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        resource, message = getattr(record, "resource", ""), record.getMessage()
        line = f"{timestamp(record.created)} {record.levelname.lower():7} "
        line += printable(f"{resource}: {message}" if resource else message)
        if record.exc_info:
            traceback = self.formatException(record.exc_info).split("\n")
            line = "\n".join([line, *map(printable, traceback)])
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
        return json.dumps(line)


def as_json(message: str) -> str:
    """Format a message as a JSON log line without logging, for a process's last error."""
    fields = {"msg": message, "levelno": logging.ERROR, "levelname": "ERROR"}
    return _JsonLines().format(logging.makeLogRecord({**fields, "name": "genericdp"}))


def timestamp(seconds: float) -> str:
    """Return a time since 1970 as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
