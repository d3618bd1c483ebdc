"""An event loop whose time moves only while nothing is in flight, and then at once."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from _typeshed import FileDescriptorLike

STUCK_SECONDS = 60.0
"""Of real time; in none of it has anything come that is in flight."""
_STEP_SECONDS = 0.0005
_LONGEST_STEP_SECONDS = 0.01
_LATE_SECONDS = 1e-6
"""A timer fires a little late, as real ones do: what waits until a moment finds it past, however
the sum was rounded."""


class StuckError(Exception):
    """Something is in flight and never comes."""


class Clock:
    """The time of a day, in seconds, and how it has passed."""

    def __init__(self) -> None:
        # No round number, and none for which a small one is lost in rounding.
        self.now = 1000.0
        self.jumps = 0
        self.waits = 0
        """How often there was something in flight to wait for."""

    def advance(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self.now += seconds + _LATE_SECONDS
        self.jumps += 1


class _Selector(selectors.BaseSelector):
    """Waits in real time for what is in flight, and otherwise has the clock jump."""

    def __init__(self, clock: Clock, is_quiet: Callable[[], bool], stuck_seconds: float) -> None:
        self._real = selectors.DefaultSelector()
        self._clock = clock
        self._is_quiet = is_quiet
        self._stuck_seconds = stuck_seconds

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._real.select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        begun, step = time.monotonic(), 0.0
        while True:
            if timeout is not None and self._is_quiet():
                # What was done before all was quiet can be seen now.
                if not (found := self._real.select(0)):
                    self._clock.advance(timeout)
                return found
            step = min(max(_STEP_SECONDS, step * 1.5), _LONGEST_STEP_SECONDS)
            if found := self._real.select(step):
                self._clock.waits += 1
                return found
            if time.monotonic() - begun > self._stuck_seconds:
                raise StuckError(f"nothing has come for {self._stuck_seconds:g} s")

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Tells the time of a clock; ``is_quiet`` says whether nothing is in flight."""

    def __init__(
        self, clock: Clock, is_quiet: Callable[[], bool], stuck_seconds: float = STUCK_SECONDS
    ) -> None:
        self._clock = clock
        super().__init__(_Selector(clock, is_quiet, stuck_seconds))

    def time(self) -> float:
        return self._clock.now
