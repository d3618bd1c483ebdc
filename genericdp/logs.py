"""Log lines on stderr: as text with the resource they are about, as JSON also with the device."""

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

from genericdp.printing import printable

resource_name: ContextVar[str] = ContextVar("resource_name", default="")
"""Set once in a plugin's task: every line logged from there carries it."""

_MAX_QUEUED = 4096
"""Lines that wait for the reader of stderr; most have 100 to 200 bytes."""
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
    # The status has lines at info, whatever the log itself lets pass.
    logging.basicConfig(level=min(handler.level, logging.INFO), handlers=[handler], force=True)
    for library in ("asyncio", "grpc", "httpx2", "httpcore2"):
        logging.getLogger(library).setLevel(logging.WARNING)


class QueuedLines(logging.Handler):
    """Has a thread write lines to a descriptor, so that a reader who stops delays nobody.

    Lines that come while too many wait are dropped, and the log says later how many.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        # Not queue.Queue: it deadlocks if a finalizer logs while the same thread puts or gets.
        self._lines: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        self._dropped = 0
        self._failed = 0
        self._reported = 0
        threading.Thread(target=self._write_lines, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line, or count it."""
        try:
            line = self._encoded(record)
        except Exception:  # noqa: BLE001  # as every handler does
            self.handleError(record)
            return
        if self._lines.qsize() < _MAX_QUEUED:
            self._lines.put(line)
        else:
            self._dropped += 1

    def flush(self) -> None:
        """Wait a moment until all lines are written; logging calls this when the process exits."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(_FLUSH_SECONDS)

    def _encoded(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def _write_lines(self) -> None:
        """Write all queued lines in one call: each write may have to wait for the GIL."""
        while True:
            batch = [self._lines.get()]
            batch += [self._lines.get() for _ in range(self._lines.qsize())]
            lines = [one for one in batch if isinstance(one, bytes)]
            if not self._write(b"".join(lines)):
                self._failed += len(lines)
            elif self._lines.empty():
                self._report_losses()
            for one in batch:
                if isinstance(one, threading.Event):
                    one.set()

    def _report_losses(self) -> None:
        lost = self._dropped + self._failed - self._reported
        if not lost:
            return
        text = f"{lost} log lines were dropped: stderr was not being read"
        fields = {"msg": text, "levelno": logging.WARNING, "levelname": "WARNING"}
        if self._write(self._encoded(logging.makeLogRecord({**fields, "name": __name__}))):
            self._reported += lost

    def _write(self, data: bytes) -> bool:
        try:
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
    """Set ``resource`` and ``device`` of a record, empty where it is about none; a filter.

    A line from outside a resource's task, or about a device, says so with ``extra``.
    """
    record.resource = getattr(record, "resource", "") or resource_name.get()
    record.device = getattr(record, "device", "")
    return not _is_canceled_call(record)


def _is_canceled_call(record: logging.LogRecord) -> bool:
    """Return whether gRPC tells of a call that was canceled before it began, as at the end.

    It takes that for a failure, with a traceback.
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
    """Format a message as a JSON log line without using logging: a process's last error."""
    fields = {"msg": message, "levelno": logging.ERROR, "levelname": "ERROR"}
    return _JsonLines().format(logging.makeLogRecord({**fields, "name": "genericdp"}))


def timestamp(seconds: float) -> str:
    """Return a time since 1970 as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
