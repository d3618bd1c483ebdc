"""Files that commands make: always new ones."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from genericdp.errors import GenericdpError, UsageError
from genericdp.signals import ANSWERED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def refuse_existing(file: Path) -> None:
    """Raise UsageError if there is something, be it a link that leads nowhere."""
    if os.path.lexists(file):
        raise UsageError(f"{file} is there already: it is not overwritten")


def write_new(file: Path, content: bytes) -> None:
    """Write a new file; nothing is left of one that could not be written as a whole."""
    try:
        with _undisturbed(), file.open("xb") as out:
            try:
                out.write(content)
                out.flush()
            except BaseException:
                file.unlink(missing_ok=True)
                raise
    except FileExistsError:
        refuse_existing(file)
        raise
    except OSError as error:
        why = (error.strerror or "").lower()
        raise GenericdpError(f"{file} cannot be written: {why}") from error


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait: most commands leave at once then, and half a file would stay."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ANSWERED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
