"""Work over the host that ends although a folder or file of it does not answer."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from genericdp.errors import GenericdpError
from genericdp.host.devicefiles import Looker
from genericdp.host.facts import HostFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.devices.inventory import Look
    from genericdp.host.root import Root

    Looking = Callable[[str], Look | None]

T = TypeVar("T")

LOOK_SECONDS = 5.0
"""How long one glob or file may take before it is left alone."""
SILENT_SECONDS = 20.0
"""How long nothing at all may be heard of, as when a folder of sysfs itself does not answer."""
MOST_HANGING = 10


@dataclass(slots=True)
class _Attempt(Generic[T]):
    """The work in a thread, and what it is looking at just now."""

    root: Root
    work: Callable[[Looking, HostFacts], T]
    hanging: frozenset[str]
    done: threading.Event = field(default_factory=threading.Event)
    at: tuple[str, float] = ("", 0.0)
    results: list[T] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        """Do the work; the result or what it raised is kept."""
        looker, facts = Looker(self.root), HostFacts(self.root)

        def look(pattern: str) -> Look | None:
            if pattern in self.hanging:
                return None
            with self._looking(pattern):
                return looker.look(pattern)

        def read(path: str, read: Callable[[], str]) -> str:
            if path in self.hanging:
                raise TimeoutError("reading it does not end")
            with self._looking(path):
                return read()

        facts.guard = read
        try:
            self.results.append(self.work(look, facts))
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            self.errors.append(error)
        self.done.set()

    @contextmanager
    def _looking(self, what: str) -> Iterator[None]:
        outer, self.at = self.at, (what, time.monotonic())
        try:
            yield
        finally:
            self.at = outer[0], time.monotonic()


def patiently(
    root: Root,
    work: Callable[[Looking, HostFacts], T],
    *,
    look_seconds: float = LOOK_SECONDS,
    silent_seconds: float = SILENT_SECONDS,
) -> T:
    """Run ``work`` with the means to ask the host; what does not answer is left out.

    ``work`` begins anew each time something hangs, and then does not ask for that any more.
    Raises GenericdpError if it cannot go on.
    """
    hanging: frozenset[str] = frozenset()
    while True:
        attempt = _Attempt(root, work, hanging)
        attempt.at = "", time.monotonic()
        # A daemon thread: one that never comes back does not hold up the exit.
        threading.Thread(target=attempt.run, name="looking", daemon=True).start()
        stuck = _wait(attempt, look_seconds, silent_seconds)
        if stuck is None:
            if attempt.errors:
                raise attempt.errors[0]
            return attempt.results[0]
        if not stuck:
            raise GenericdpError("reading the devices of sysfs does not end")
        if len(hanging) == MOST_HANGING:
            raise GenericdpError(f"too much of the host does not answer: {stuck!r} is the next")
        print(f"looking at {stuck!r} does not end: going on without it", file=sys.stderr)
        hanging |= {stuck}


def _wait(attempt: _Attempt[T], look_seconds: float, silent_seconds: float) -> str | None:
    """Wait for the end: give None, or what hangs; empty if that is not known."""
    while not attempt.done.wait(min(look_seconds, silent_seconds) / 4):
        what, since = attempt.at
        silent = time.monotonic() - since
        if silent > (look_seconds if what else silent_seconds):
            return what
    return None
