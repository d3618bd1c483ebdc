"""Names of our sockets in the kubelet's folder, and sockets that crashed runs have left."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import re
import socket
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

PREFIX = "genericdp-"
_LONGEST_PATH_BYTES = 107  # sun_path has 108, one of them for the final NUL
_LONGEST_NAME = len(f"{PREFIX}{'r' * 12}-{'i' * 8}-9999999.sock")
_NAME = re.compile(rf"{PREFIX}(?P<digest>[0-9a-f]{{12}})-(?P<instance>[0-9a-f]{{8}})-[0-9]+\.sock")
_LEFTOVER_AFTER_SECONDS = 60


class SocketNames:
    """Names the socket of each attempt to register, never the same twice (REG-11, K8)."""

    def __init__(self) -> None:
        # Not the process ID: in a container it is 1 for each of two instances.
        self.instance = os.urandom(4).hex()
        self._count = itertools.count(1)

    def next_name(self, resource: str) -> str:
        """Return a file name that is short, however long the resource's name is."""
        return f"{PREFIX}{digest_of(resource)}-{self.instance}-{next(self._count)}.sock"


def digest_of(resource: str) -> str:
    """Return the digest of a resource in the names of its sockets, of any instance."""
    return hashlib.sha256(resource.encode()).hexdigest()[:12]


def parts_of(name: str) -> tuple[str, str] | None:
    """Return digest and instance from a socket's name; None if it is not one of genericdp."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found["digest"], found["instance"])


def check_length(folder: Path) -> None:
    """Raise UsageError if a socket in the folder would have too long a path."""
    room = _LONGEST_PATH_BYTES - _LONGEST_NAME - 1
    if (length := len(str(folder).encode())) > room:
        raise UsageError(
            f"the kubelet's folder {folder} has {length} bytes, but at most {room} leave room for"
            " the name of a unix socket: reach it under a shorter path"
        )


def remove_leftovers(folder: Path, *, instance: str) -> None:
    """Remove sockets of crashed runs (K9): by their name, if a minute old and refusing connections.

    Sockets of this ``instance`` are left alone. May block for a second: not for the event loop.
    """
    with suppress(OSError):
        for path in folder.glob(f"{PREFIX}*.sock"):
            if f"-{instance}-" not in path.name and _is_leftover(path):
                path.unlink(missing_ok=True)
                log.info("removed %s, left by a run that crashed", path.name)


def _is_leftover(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    old = time.time() - status.st_ctime > _LEFTOVER_AFTER_SECONDS  # noqa: TID251
    return old and stat.S_ISSOCK(status.st_mode) and refuses(path)


def refuses(path: Path) -> bool:
    """Return whether a socket refuses connections. May block for a second: not for the loop."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
