"""What something showed while something else went on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_EVERY_SECONDS = 0.1


class Counted(AbstractContextManager["Counted"]):
    """Asks ten times a second, and keeps the distinct answers."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self.values: set[object] = set()
        self.times = 0
        self._end = Event()
        self._thread = Thread(target=self._look, name="counted")

    def __enter__(self) -> Counted:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(_LOOK_EVERY_SECONDS):
            self.values.add(self._ask())
            self.times += 1
