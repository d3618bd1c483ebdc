"""How many descriptors this process may have, and whether they run short."""

from __future__ import annotations

import asyncio
import logging
import os
import resource as limits
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.observed import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from genericdp.observed import Observed

log = logging.getLogger(__name__)

_OPEN = Path("/proc/self/fd")
PERIOD_SECONDS = 10.0
_AGAIN_SECONDS = 2.0
_FEWEST = 16
_FEW_PART = 1 / 32
"""Of all: when fewer are left, it is said. Each resource takes 2, and more while it registers."""

KEPT = 24
"""So many no resource may take: the child that reads a config needs 8, a probe 2, a look some."""
_EACH = 5
"""The most that one takes while it registers: its socket, its calls and those of the kubelet."""
_OTHERS = 1000
"""More than all else takes; where there is room for that as well, nothing has to be counted."""
_REMEDY = (
    "allow more (LimitNOFILE= of the unit, the container runtime's ulimits), or serve fewer"
    " resources"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Descriptors of this process."""

    used: int
    most: int

    @property
    def left(self) -> int:
        """How many more there can be."""
        return self.most - self.used

    @property
    def is_short(self) -> bool:
        """Whether so few are left that something will soon fail."""
        return self.left < max(_FEWEST, self.most * _FEW_PART)


def raise_limit() -> None:
    """Allow this process as many as anybody allows it: the soft limit is mostly 1,024.

    Commands do not inherit that: they have limits of their own.
    """
    _, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # fs.nr_open may have been lowered below it
        limits.setrlimit(limits.RLIMIT_NOFILE, (hard, hard))


def wait_for_a_start() -> None:
    """Raise the limit, and wait until there are as many as starting takes.

    With fewer, an import or the event loop itself fails, and with it the daemon.
    """
    raise_limit()
    was_short = False
    while (now := count()).left < KEPT:
        if not was_short:
            log.error(
                "descriptors run short: %d of %d are in use, and starting takes %d more: nothing is"
                " served until there are so many: %s",
                now.used,
                now.most,
                KEPT,
                _REMEDY,
            )
        was_short = True
        time.sleep(_AGAIN_SECONDS)
        raise_limit()
    if was_short:
        log.info("descriptors no longer run short: %d of %d are in use", now.used, now.most)


def most_allowed() -> int:
    """Give how many this process may have."""
    return limits.getrlimit(limits.RLIMIT_NOFILE)[0]


def count() -> Supply:
    """Give how many there are; before Linux 6.2 that takes about a millisecond for a thousand."""
    most = most_allowed()
    try:
        used = _OPEN.stat().st_size or listed()
    except OSError:  # none is left for that
        used = most
    return Supply(used=used, most=most)


def listed() -> int:
    """Count them as older kernels show them, which give the folder no size."""
    with os.scandir(_OPEN) as entries:
        return sum(1 for _ in entries) - 1  # the one that lists


class Places:
    """Lets resources in for good, first come first served, as long as all have descriptors enough.

    Those that are in could else neither be registered again, nor a smaller config be read.
    """

    def __init__(
        self,
        *,
        supply: Callable[[], Supply] = count,
        most: Callable[[], int] = most_allowed,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._supply = supply
        self._most = most
        self._again_seconds = again_seconds
        self._line = asyncio.Lock()
        self._in_line = 0
        self._in: set[Observed[bool]] = set()
        self._told = False

    @asynccontextmanager
    async def place(self, resource: str, registered: Observed[bool]) -> AsyncIterator[None]:
        """Wait for a place and have it; ``registered``: it has taken all that it needs."""
        self._in_line += 1
        try:
            async with self._line:
                # Others may also end: a probe, or one that was in.
                while not await until(
                    self._has_room, *self._in, timeout_seconds=self._again_seconds
                ):
                    self._tell(resource)
            self._in.add(registered)
            if self._told and self._in_line == 1:
                log.info("descriptors no longer run short: no resource waits for them")
        finally:
            self._in_line -= 1
            self._told = self._told and self._in_line > 0
        try:
            yield
        finally:
            self._in.remove(registered)

    def _has_room(self) -> bool:
        if KEPT + _EACH * (len(self._in) + 1) + _OTHERS <= self._most():
            return True
        return self._supply().left >= KEPT + _EACH + self._promised

    @property
    def _promised(self) -> int:
        return _EACH * sum(not one.value for one in self._in)

    def _tell(self, resource: str) -> None:
        if self._told:
            return
        self._told = True
        now = self._supply()
        log.error(
            "descriptors run short: %d of %d are in use, %d are for resources that register, %d"
            " are kept for reading the config: %s waits, and so do all after it: %s",
            now.used,
            now.most,
            self._promised,
            KEPT,
            resource,
            _REMEDY,
        )


async def watch(supply: Observed[Supply | None], *, period_seconds: float = PERIOD_SECONDS) -> None:
    """Keep ``supply`` true for ever; the log says once when it runs short, and when no longer."""
    while True:
        before, now = supply.value, count()
        was_short = before is not None and before.is_short
        if now.is_short and not was_short:
            log.error(
                "descriptors run short: %d of %d are in use (each resource takes 2 or 3, each probe"
                " that runs 2): %s",
                now.used,
                now.most,
                _REMEDY,
            )
        elif was_short and not now.is_short:
            log.info("descriptors no longer run short: %d of %d are in use", now.used, now.most)
        supply.value = now
        await asyncio.sleep(period_seconds)
