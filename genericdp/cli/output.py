"""What several commands show and write: container edits, progress, new files."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from genericdp.errors import GenericdpError, UsageError
from genericdp.printing import print_lines
from genericdp.process.signals import deferred

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from genericdp.devices.device import ContainerEdits

_QUIET_SECONDS = 2.0


def edits_as_text(edits: ContainerEdits) -> Iterator[str]:
    """Yield a line for each thing that a container gets."""
    for node in edits.devices:
        yield f"  device      {node.container_path} ({node.permissions}) from {node.host_path}"
    for mount in edits.mounts:
        mode = "ro" if mount.read_only else "rw"
        yield f"  mount       {mount.container_path} ({mode}) from {mount.host_path}"
    yield from (f"  env         {key}={value}" for key, value in edits.env.items())
    yield from (f"  annotation  {key}={value}" for key, value in edits.annotations.items())
    yield from (f"  cdi         {cdi}" for cdi in edits.cdi)


def edits_as_json(edits: ContainerEdits) -> dict[str, object]:
    """Return an object whose lists and mappings may be empty, but are there."""
    return {
        "devices": [
            {
                "hostPath": node.host_path,
                "containerPath": node.container_path,
                "permissions": node.permissions,
            }
            for node in edits.devices
        ],
        "mounts": [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "readOnly": mount.read_only,
            }
            for mount in edits.mounts
        ],
        "env": dict(edits.env),
        "annotations": dict(edits.annotations),
        "cdi": list(edits.cdi),
    }


class Progress:
    """Messages on stderr about how far a slow operation is: after 2 s, then every 2 s."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._next = time.monotonic() + _QUIET_SECONDS

    def tell(self, count: int, where: str = "") -> None:
        """Print how many entries there are so far, if it is time; called as often as you like."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _QUIET_SECONDS
            at = f", now {where}" if where else ""
            print_lines([f"{self._sentence}: {count:,} entries{at}"], file=sys.stderr)


def refuse_existing(file: Path) -> None:
    """Raise UsageError if the file exists, be it a link that leads nowhere."""
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
