"""Log lines on stderr, as text or JSON, each with the resource that it is about."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

resource_name: ContextVar[str] = ContextVar("resource_name", default="")
"""Set once in a plugin's task: every line logged from there carries it."""

LEVELS = ("debug", "info", "warning", "error")


def set_up(*, log_format: str, level: str) -> None:
    """Send all log lines to stderr in ``log_format``, text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_resource)
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in ("asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _add_resource(record: logging.LogRecord) -> bool:
    # A line about one resource from outside its task says so with ``extra``.
    record.resource = getattr(record, "resource", "") or resource_name.get()
    return True


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        resource = getattr(record, "resource", "")
        line = f"{_time(record)} {record.levelname.lower():7} "
        line += f"{resource}: {record.getMessage()}" if resource else record.getMessage()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
        }
        if resource := getattr(record, "resource", ""):
            line["resource"] = resource
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
