"""Limits on how many commands run at once, without letting one resource delay another."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable

POOL = 32
"""Slots that all owners share, beyond the one that each of them has."""


@dataclass(slots=True)
class Slots:
    """Slots for jobs: each owner always has one of its own, beyond that all share a pool.

    A free slot of the pool goes to the waiting owners in turn. The jobs of one owner start in the
    order in which they came.
    """

    pool: int = POOL
    most_of_owner: int | None = None
    """How many jobs of one owner may run at once; None: as many as there are slots."""
    _waiting: dict[Hashable, deque[asyncio.Event]] = field(default_factory=dict)
    _running: dict[Hashable, int] = field(default_factory=dict)
    """Jobs that hold a slot, by owner; without the owners that have none."""
    _total: int = 0

    @asynccontextmanager
    async def slot(self, owner: Hashable) -> AsyncIterator[None]:
        """Wait for a slot, and hold it until the context ends."""
        turn = asyncio.Event()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._start_next()
        try:
            await turn.wait()
            yield
        finally:
            if turn.is_set():  # also if canceled at the moment when the turn had come
                self._leave(owner)
            else:
                self._remove(owner, turn)

    def _start_next(self) -> None:
        """Start the first job that may run: never more than one can, after each change."""
        owner = next((one for one in self._waiting if self._may_start(one)), None)
        if owner is None:
            return
        turn = self._waiting[owner][0]
        self._remove(owner, turn)
        if owner in self._waiting:  # to the end: the other owners come first next time
            self._waiting[owner] = self._waiting.pop(owner)
        self._running[owner] = self._running.get(owner, 0) + 1
        self._total += 1
        turn.set()

    def _may_start(self, owner: Hashable) -> bool:
        running = self._running.get(owner, 0)
        if not running:
            return True
        if self.most_of_owner is not None and running >= self.most_of_owner:
            return False
        return self._total - len(self._running) < self.pool

    def _leave(self, owner: Hashable) -> None:
        self._total -= 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        self._start_next()

    def _remove(self, owner: Hashable, turn: asyncio.Event) -> None:
        self._waiting[owner].remove(turn)
        if not self._waiting[owner]:
            del self._waiting[owner]
