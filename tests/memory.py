"""The memory that Python needs for something."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_MIB = 48
"""The pod is limited to 160 MiB, of which the daemon has about 60."""


@contextmanager
def little_memory(part: float = 1.0) -> Iterator[None]:
    """Fail if Python's memory grows by more than a container has for an answer, or this part."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    mib = (peak - before) / 2**20
    print(f"{mib:.1f} MiB at most")
    assert mib < _MAX_MIB * part
