"""File descriptors of this process: their limit, and how many are in use."""

from __future__ import annotations

import asyncio
import logging
import os
import resource as limits
from contextlib import suppress
from dataclasses import dataclass

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
_MIN_LEFT = 16
_FEW_PART = 1 / 32
"""Of the limit: a warning is logged when fewer are left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Descriptors in use, and the limit."""

    used: int
    most: int

    @property
    def left(self) -> int:
        """How many more can be opened."""
        return self.most - self.used

    @property
    def is_short(self) -> bool:
        """Whether so few are left that something will soon fail."""
        return self.left < max(_MIN_LEFT, self.most * _FEW_PART)


def raise_limit() -> None:
    """Raise the soft limit, usually 1,024, to the hard one; commands have limits of their own."""
    _, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # fs.nr_open may have been lowered below it
        limits.setrlimit(limits.RLIMIT_NOFILE, (hard, hard))


def count() -> Supply:
    """Count open descriptors."""
    most, _ = limits.getrlimit(limits.RLIMIT_NOFILE)
    try:
        used = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208  # without the one that lists
    except OSError:  # none is left for that
        used = most
    return Supply(used=used, most=most)


class _DescriptorShortage:
    """Logs once that descriptors run short, and once that they no longer do."""

    def __init__(self) -> None:
        self._is_told = False

    def begins(self, why: str) -> None:
        if not self._is_told:
            self._is_told, now = True, count()
            log.error(
                "descriptors run short: %d of %d are in use, and %s: allow more (LimitNOFILE= of"
                " the unit, the container runtime's ulimits), or serve fewer resources",
                now.used,
                now.most,
                why,
            )

    def ends(self) -> None:
        if self._is_told:
            self._is_told, now = False, count()
            log.info("descriptors no longer run short: %d of %d are in use", now.used, now.most)


async def watch(*, period_seconds: float = PERIOD_SECONDS) -> None:
    """Log when they run short and when no longer, forever."""
    shortage = _DescriptorShortage()
    while True:
        if count().is_short:
            shortage.begins("each resource takes 2 or 3, each probe that runs 2")
        else:
            shortage.ends()
        await asyncio.sleep(period_seconds)
