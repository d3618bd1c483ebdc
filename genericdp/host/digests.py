"""SHA-256 of files, computed once for each state that a file has."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from genericdp.host.pathwalk import opened

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 1024 * 1024
_MAX_KEPT = 256
_TICK_NS = 1_000_000_000
_FileState = tuple[int, ...]


class Digests:
    """Remembers what a file had as long as its inode, size and times are the same.

    A write that leaves all of them as they are is not seen; root can do that, and nobody else.
    ``now`` gives the time of day in nanoseconds, as the times of files have it.
    """

    def __init__(self, now: Callable[[], int] = time.time_ns) -> None:  # noqa: TID251
        self._now = now
        self._known: dict[str, tuple[_FileState, str]] = {}

    def sha256(self, path: str) -> str:
        """Return the SHA-256 digest of a file as 64 lower-case hexadecimal digits.

        Links are followed. Raises OSError; may hang.
        """
        import hashlib  # OpenSSL, four megabytes: fast, and only a policy asks for it

        with opened(path) as (descriptor, _):
            state = _state(os.fstat(descriptor))
            known = self._known.get(path)
            if known is not None and known[0] == state:
                return known[1]
            digest = hashlib.sha256()
            while chunk := os.read(descriptor, _CHUNK):
                digest.update(chunk)
            if _state(os.fstat(descriptor)) != state:
                raise OSError("it is being written")
        if self._now() - max(state[-2:]) < _TICK_NS:
            # A write in the same tick of the kernel's clock would leave the times as they are.
            return digest.hexdigest()
        if len(self._known) >= _MAX_KEPT:
            self._known.clear()
        self._known[path] = (state, digest.hexdigest())
        return digest.hexdigest()


def _state(status: os.stat_result) -> _FileState:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
