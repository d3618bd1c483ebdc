"""Looks in a thread of its own while a test continues."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Looking(ABC):
    """Calls ``look`` again and again while the context lasts."""

    def __init__(self, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._end = Event()
        # A daemon, lest a test that fails before the end of the context keeps pytest from ending.
        self._thread = Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    @abstractmethod
    def look(self) -> None:
        """Look once, from the thread."""

    def _run(self) -> None:
        while not self._end.wait(self._every_seconds):
            self.look()
