"""Samples of a value while something else happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.cluster.looking import Looking

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_EVERY_SECONDS = 0.1


class Counted(Looking):
    """Asks ten times a second, and keeps the distinct answers."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(_LOOK_EVERY_SECONDS)
        self._ask = ask
        self.values: set[object] = set()
        self.times = 0

    def look(self) -> None:
        """Ask once."""
        self.values.add(self._ask())
        self.times += 1
