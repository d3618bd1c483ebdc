"""How many descriptors this process may have, and whether they run short."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genericdp.observed import Observed

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
_FEWEST = 16
_FEW_PART = 1 / 32
"""Of all: when fewer are left, it is said. Each resource takes 2, and 3 while it registers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Descriptors of this process."""

    used: int
    most: int

    @property
    def is_short(self) -> bool:
        """Whether so few are left that something will soon fail."""
        return self.most - self.used < max(_FEWEST, self.most * _FEW_PART)


def raise_limit() -> None:
    """Allow this process as many as anybody allows it: the soft limit is mostly 1,024.

    Commands do not inherit that: they have limits of their own.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # fs.nr_open may have been lowered below it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def count() -> Supply:
    """Give how many there are; takes about a millisecond for a thousand."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with os.scandir("/proc/self/fd") as entries:
            used = sum(1 for _ in entries) - 1  # the one that lists
    except OSError:  # none is left for that
        used = most
    return Supply(used=used, most=most)


async def watch(supply: Observed[Supply | None], *, period_seconds: float = PERIOD_SECONDS) -> None:
    """Keep ``supply`` true for ever; the log says once when it runs short, and when no longer."""
    while True:
        before, now = supply.value, count()
        was_short = before is not None and before.is_short
        if now.is_short and not was_short:
            log.error(
                "descriptors run short: %d of %d are in use (each resource takes 2 or 3, each probe"
                " that runs 2): allow more (LimitNOFILE= of the unit, the container runtime's"
                " ulimits), or serve fewer resources",
                now.used,
                now.most,
            )
        elif was_short and not now.is_short:
            log.info("descriptors no longer run short: %d of %d are in use", now.used, now.most)
        supply.value = now
        await asyncio.sleep(period_seconds)
