"""The answers to a question that is asked again and again while something else happens."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self


class Counted:
    """Asks from a thread of its own while the context lasts, and keeps the distinct answers."""

    def __init__(self, ask: Callable[[], object], every_seconds: float = 0.02) -> None:
        """By default as often as a kubelet allows, which answers 100 calls in a second (PRS-1)."""
        self._ask = ask
        self._every_seconds = every_seconds
        self._end = Event()
        # A daemon, lest a test that fails before the end of the context keeps pytest from ending.
        self._thread = Thread(target=self._run, daemon=True)
        self.values: set[object] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._every_seconds):
            self.values.add(self._ask())
