"""File descriptors of this process: their limit, and how many are in use."""

from __future__ import annotations

import asyncio
import logging
import os
import resource as limits
from contextlib import suppress
from dataclasses import dataclass

from genericdp.repeat import Latch

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
_MIN_LEFT = 16
_FEW_PART = 1 / 32
"""Fraction of the limit: a warning is logged when fewer are left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Descriptors in use, and the limit."""

    used: int
    most: int

    @property
    def is_short(self) -> bool:
        """Return whether too few are left, so that something will soon fail."""
        return self.most - self.used < max(_MIN_LEFT, self.most * _FEW_PART)


def raise_limit() -> None:
    """Raise the soft limit, usually 1,024, to the hard one; commands have their own limits."""
    _, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # fs.nr_open may have been lowered below it
        limits.setrlimit(limits.RLIMIT_NOFILE, (hard, hard))


def count() -> Supply:
    """Count open descriptors."""
    most, _ = limits.getrlimit(limits.RLIMIT_NOFILE)
    try:
        used = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208  # without the one that lists
    except OSError:  # no descriptor is left to count with
        used = most
    return Supply(used=used, most=most)


async def watch(*, period_seconds: float = PERIOD_SECONDS) -> None:
    """Log when descriptors run short and when they no longer do, forever."""
    shortage = Latch(log)
    while True:
        now = count()
        numbers = f"{now.used} of {now.most} are in use"
        shortage.update(
            "short" if now.is_short else "",
            "running out of file descriptors: %s (each resource takes 2 or 3, each running probe"
            " 2): allow more (LimitNOFILE= of the unit, the container runtime's ulimits), or serve"
            " fewer resources",
            numbers,
            ended=f"there are enough file descriptors again: {numbers}",
            level=logging.ERROR,
        )
        await asyncio.sleep(period_seconds)
