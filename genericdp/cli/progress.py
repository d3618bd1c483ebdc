"""How far something is, said once it takes longer than somebody waits without asking."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from genericdp.printing import print_lines

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET_SECONDS = 2.0
"""Before the first line, and between two."""


class Progress:
    """Prints a line to stderr now and then."""

    def __init__(self, sentence: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sentence = sentence
        self._clock = clock
        self._next = clock() + QUIET_SECONDS

    def tell(self, count: int, where: str = "") -> None:
        """Say how many there are so far, if it is time; called as often as anybody likes."""
        now = self._clock()
        if now >= self._next:
            self._next = now + QUIET_SECONDS
            at = f", now {where}" if where else ""
            print_lines([f"{self._sentence}: {count:,} entries{at}"], file=sys.stderr)
