"""SHA-256 of files, computed once for each state that a file has."""

from __future__ import annotations

import os
import time

from genericdp.host.pathwalk import opened

_CHUNK = 1024 * 1024
_MAX_KNOWN = 256
_TICK_NS = 1_000_000_000
_FileState = tuple[int, ...]
_known: dict[str, tuple[_FileState, str]] = {}
"""By path, a state and the digest that belongs to it."""


def sha256(path: str) -> str:
    """Return the SHA-256 digest of a file as 64 lower-case hexadecimal digits.

    It is remembered as long as the file's inode, size and times are the same. A write that leaves
    all of them as they are is not seen; root can do that, and nobody else. Links are followed.
    Raises OSError; may hang.
    """
    import hashlib  # OpenSSL, four megabytes: fast, and only a policy asks for it

    with opened(path) as (descriptor, _):
        state = _state(os.fstat(descriptor))
        known = _known.get(path)
        if known is not None and known[0] == state:
            return known[1]
        digest = hashlib.sha256()
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
        if _state(os.fstat(descriptor)) != state:
            raise OSError("it is being written")
    # A write in the same tick of the kernel's clock would leave the times as they are.
    if time.time_ns() - max(state[-2:]) >= _TICK_NS:  # noqa: TID251  # as the times of files
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[path] = (state, digest.hexdigest())
    return digest.hexdigest()


def _state(status: os.stat_result) -> _FileState:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
