"""Files that commands make: always new ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from genericdp.errors import GenericdpError, UsageError
from genericdp.process.signals import deferred

if TYPE_CHECKING:
    from pathlib import Path


def refuse_existing(file: Path) -> None:
    """Raise UsageError if there is something, be it a link that leads nowhere."""
    if os.path.lexists(file):
        raise UsageError(f"{file} is there already: it is not overwritten")


def write_new(file: Path, content: bytes) -> None:
    """Write a new file; nothing is left of one that could not be written as a whole."""
    try:
        with deferred(), file.open("xb") as out:
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
