"""Snapshots given as ``--root``: unpacked into a temporary folder while the command runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from genericdp.errors import UsageError
from genericdp.process.signals import deferred

_folders: list[Path] = []


def unpacked(file: Path) -> Path:
    """Unpack a snapshot into a new folder, for ``remove_unpacked`` to remove; return the folder.

    Raises UsageError if the file is not a snapshot.
    """
    # Only whoever has one needs these.
    from genericdp.cli.progress import Progress
    from genericdp.snapshot.archive import ArchiveError, unpack

    try:
        with file.open("rb") as packed:
            with deferred():
                folder = Path(tempfile.mkdtemp(prefix="genericdp-"))
                _folders.append(folder)
            # Who may read what is part of the copy, whatever the umask of this shell.
            before = os.umask(0o022)
            try:
                unpack(packed, folder, Progress(f"unpacking {file}").tell)
            finally:
                os.umask(before)
    except ArchiveError as error:
        raise UsageError(f"{file}: {error}") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be unpacked: {(error.strerror or '').lower()}") from error
    return folder


def remove_unpacked() -> None:
    """Remove all snapshots that were unpacked."""
    with deferred():
        while _folders:
            shutil.rmtree(_folders.pop(), ignore_errors=True)
