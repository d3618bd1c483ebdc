"""Connections of a kubelet to plugins, broken from outside."""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import suppress
from pathlib import Path

_PIDFD_GETFD = 438
"""The number of the system call; the same on all machines."""
_libc = ctypes.CDLL(None, use_errno=True)


def break_connections(process_id: int, directory: Path) -> list[str]:
    """Shut down all connections of a process to sockets in a directory; give the sockets' names.

    The process has them open still: for it and for its peer the other side has gone.
    """
    broken = []
    process = os.pidfd_open(process_id)
    try:
        for entry in Path(f"/proc/{process_id}/fd").iterdir():
            with suppress(OSError):
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                with socket.socket(fileno=_borrow(process, int(entry.name))) as found:
                    peer = found.getpeername()
                    if isinstance(peer, str) and Path(peer).parent == directory:
                        found.shutdown(socket.SHUT_RDWR)
                        broken.append(Path(peer).name)
    finally:
        os.close(process)
    return broken


def _borrow(process: int, descriptor: int) -> int:
    borrowed: int = _libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
    if borrowed < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return borrowed
