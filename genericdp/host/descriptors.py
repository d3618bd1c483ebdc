"""File descriptors of this process: their limit, how many are in use, and what waits for more."""

from __future__ import annotations

import asyncio
import logging
import os
import resource as limits
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
_PATIENCE_SECONDS = 2.0
"""How long a resource may wait before that is logged."""
_MIN_LEFT = 16
_FEW_PART = 1 / 32
"""Of the limit: a warning is logged when fewer are left."""

_RESERVED = 24
"""Never taken by resources: the child that reads a config needs 8, a probe 2, discovery some."""
_WHILE_REGISTERING = 5
"""What a resource takes: its socket, its calls and those of the kubelet."""
_REGISTERED = 2
REGISTRATIONS_AT_ONCE = 32
"""Resources that register at the same time."""


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


class Places:
    """Starts as many resources as there are descriptors for, in the order of the config."""

    def __init__(self) -> None:
        room = count().left - _RESERVED
        for_registering = REGISTRATIONS_AT_ONCE * (_WHILE_REGISTERING - _REGISTERED)
        registered = (room - for_registering) // _REGISTERED
        self._free = asyncio.Semaphore(max(1, room // _WHILE_REGISTERING, registered))
        self._waiting = 0
        self._shortage = _DescriptorShortage()

    @asynccontextmanager
    async def place(self, resource: str) -> AsyncIterator[None]:
        """Wait until there are descriptors for a resource, and keep them for it."""
        why = f"{resource} waits, and so do all after it"
        # Only if it waits for longer: a resource that is being removed returns its place soon.
        waiting = asyncio.get_running_loop().call_later(
            _PATIENCE_SECONDS, self._shortage.begins, why
        )
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            waiting.cancel()
            self._waiting -= 1
        try:
            if not self._waiting:
                self._shortage.ends()
            yield
        finally:
            self._free.release()
