"""Limits of this process, and directories that it may not read: real ones, for a while."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def spare_descriptors(count: int) -> Iterator[None]:
    """Leave this many descriptors to this process; what it has open stays open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The listing's own descriptor is among them: without a hole below, it is the highest.
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = []
    while (filler := os.open(os.devnull, os.O_RDONLY)) <= highest:
        fillers.append(filler)
    os.close(filler)
    resource.setrlimit(resource.RLIMIT_NOFILE, (filler + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


@contextmanager
def forbidden(directory: Path, mode: int = 0) -> Iterator[None]:
    """Make a directory one that this process may not read, even as root."""
    directory.chmod(mode)
    is_root = os.geteuid() == 0
    if is_root:
        for top in (*directory.parents[:-1], directory):
            if top.stat().st_uid == 0 and top.stat().st_mode & 0o077 == 0:
                os.chown(top, 65534, -1)
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o755)


def start_no_more_threads() -> int:
    """Leave this process too little address space for a thread's stack; gives the former limit.

    For a process of its own. Raises SystemExit where a thread can be started nevertheless.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    address_space = pages * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space + 1024 * 1024, hard))
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        return hard
    raise SystemExit("the stack of a thread is small here")
