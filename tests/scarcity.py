"""What a process has little of: real limits, for a while."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def spare_descriptors(count: int) -> Iterator[None]:
    """Leave so many descriptors to this process; what it has open stays open."""
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
        for one in fillers:
            os.close(one)
