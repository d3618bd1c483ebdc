"""Who may talk to the kubelet just now: a crowd at once costs memory that never comes back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_AT_ONCE = 32
_PATIENCE_SECONDS = 1.0


class Turns:
    """Lets so many in at once, first come first served.

    Who is in for longer than the patience counts no more: a registration that hangs must not
    keep another resource waiting (K6).
    """

    def __init__(
        self, *, at_once: int = _AT_ONCE, patience_seconds: float = _PATIENCE_SECONDS
    ) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._patience_seconds = patience_seconds

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and have it."""
        await self._free.acquire()
        counts = True

        def leave() -> None:
            nonlocal counts
            if counts:
                counts = False
                self._free.release()

        patience = asyncio.get_running_loop().call_later(self._patience_seconds, leave)
        try:
            yield
        finally:
            patience.cancel()
            leave()
