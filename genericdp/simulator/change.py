"""Waiting for a change of state, so that nobody has to sleep and look."""

from __future__ import annotations

import asyncio


class Change:
    """Something that happens again and again, to any number of waiters."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def announce(self) -> None:
        """Wake everyone who waits now."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next announcement."""
        # Taken before the first suspension: an announcement between the caller's look at the
        # state and this wait cannot be lost, because both run without giving up the loop.
        await self._next.wait()
