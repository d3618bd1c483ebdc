"""Programs in processes of their own, where nothing has been imported yet."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

_REPOSITORY = Path(__file__).parent.parent


def last_line(program: str) -> str:
    """Return the last line of a program of Python, which has to end well."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.fspath(_REPOSITORY)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@contextmanager
def quiet_grpc() -> Iterator[None]:
    """Drop what asyncio logs when gRPC has an answer for the closed event loop of another test."""
    log = logging.getLogger("asyncio")
    log.addFilter(_is_not_of_grpc)
    try:
        yield
    finally:
        log.removeFilter(_is_not_of_grpc)


def _is_not_of_grpc(record: logging.LogRecord) -> bool:
    return "PollerCompletionQueue._handle_events" not in record.getMessage()


def close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close the pipes to a process that has ended: asyncio has no public way."""
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
