"""Log lines on stderr, as text or JSON, each with the resource and device that it is about."""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from contextvars import ContextVar
from datetime import UTC, datetime

from genericdp.printing import printable, printable_lines

resource_name: ContextVar[str] = ContextVar("resource_name", default="")
"""Set once in a plugin's task: every line logged from there carries it."""

_MOST_KEPT_BYTES = 1024 * 1024
_FLUSH_SECONDS = 0.5
_AGAIN_SECONDS = 0.05

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
        return UnblockedLines(sys.stderr.fileno())
    except (AttributeError, OSError):  # in a test, or where there is none
        return logging.StreamHandler(sys.stderr)


class UnblockedLines(logging.Handler):
    """Writes lines to a descriptor and waits for nobody: its reader may be stopped, or gone.

    What cannot be written yet is kept, at most ``most_bytes``, and written by a thread when it
    can be. Then the log says how many lines were lost.
    """

    def __init__(self, descriptor: int, *, most_bytes: int = _MOST_KEPT_BYTES) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._lost = 0
        self._changing = threading.Lock()
        """Held for moments only: never while anything is written that may have to wait."""
        self._writer: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or keep it."""
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:  # noqa: BLE001  # as all handlers do
            self.handleError(record)
            return
        with self._changing:
            rest = line
            if not self._kept:
                rest, failed = _write(self._descriptor, line, wait=False)
                self._lost += failed
            if rest:
                self._keep(rest)

    def _keep(self, line: bytes) -> None:
        if self._kept_bytes + len(line) > self._most_bytes:
            self._lost += 1
            return
        self._kept.append(line)
        self._kept_bytes += len(line)
        if self._writer is None:
            writer = threading.Thread(target=self._write_kept, name="log", daemon=True)
            try:
                writer.start()
            except RuntimeError:
                return  # with the next line
            self._writer = writer

    def _write_kept(self) -> None:
        while True:
            with self._changing:
                if not self._kept and self._lost:
                    self._note_losses()
                if not self._kept:
                    self._writer = None
                    return
                line = self._kept[0]
            _, failed = _write(self._descriptor, line, wait=True)
            with self._changing:
                self._kept.popleft()
                self._kept_bytes -= len(line)
                self._lost += failed

    def _note_losses(self) -> None:
        text = f"{self._lost} lines of the log were lost: nobody has read them"
        self._lost = 0
        fields = {"msg": text, "levelno": logging.WARNING, "levelname": "WARNING"}
        record = logging.makeLogRecord({**fields, "name": __name__})
        self._kept.append(f"{self.format(record)}\n".encode())
        self._kept_bytes += len(self._kept[-1])

    def flush(self) -> None:
        """Wait a moment for what is kept to be written; at the end of the process, mostly."""
        if (writer := self._writer) is not None:
            writer.join(_FLUSH_SECONDS)


def _write(descriptor: int, line: bytes, *, wait: bool) -> tuple[bytes, bool]:
    """Write what can be written, or all; gives the rest, and whether that failed for good."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    while line:
        if not poll.poll(None if wait else 0):
            return line, False
        try:
            # Where poll says that there is room, a pipe takes so many bytes at once.
            line = line[os.write(descriptor, line[: select.PIPE_BUF]) :]
        except BlockingIOError:
            if not wait:
                return line, False
            time.sleep(_AGAIN_SECONDS)  # poll promised too much
        except OSError:
            return b"", True
    return b"", False


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
