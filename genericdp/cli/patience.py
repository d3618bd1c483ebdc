"""Reading the host without the folders and files of it that hang."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from genericdp.errors import GenericdpError
from genericdp.host.devicefiles import Looker
from genericdp.host.facts import HostFacts
from genericdp.host.root import Root
from genericdp.pathwalk import Walk
from genericdp.printing import print_lines

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from genericdp.devices.inventory import Look

    Looking = Callable[[str], Look | None]

T = TypeVar("T")

LOOK_SECONDS = 5.0
"""How long one call of the kernel may take before what it is about is left alone."""
MOST_HANGING = 10


class _WatchedRoot(Root):
    """A root that records which path it is waiting for, and refuses those known to hang."""

    def __init__(self, root: Root, hanging: frozenset[str]) -> None:
        super().__init__(Path(root.real("/")))
        self._root = root
        self.waiting: tuple[str, float, bool] | None = None
        """The path, since when on the monotonic clock, and whether it is a file's content."""
        self._hanging = hanging

    def real(self, path: str) -> str:
        """Give where a path of the host lies on this machine."""
        return self._root.real(path)

    def lstat(self, path: str) -> os.stat_result:
        """Give the status of the path itself."""
        return self._watched(path, self._root.lstat)

    def entries(self, path: str) -> list[str]:
        """Give the names in a folder."""
        return self._watched(path, self._root.entries)

    def read_bytes(self, path: str, *, limit: int, follow: bool = True) -> bytes:
        """Return the start of a file's content."""
        read = partial(self._root.read_bytes, limit=limit, follow=follow)
        return self._watched(path, read, content=True)

    def walk(self, path: str, *, past_missing: bool = False) -> Walk:
        """Follow every link as far as there is something; raises nothing."""
        try:
            return self._watched(path, partial(self._root.walk, past_missing=past_missing))
        except TimeoutError as error:
            return Walk(at=path, error=error.with_traceback(None))

    def guard(self, path: str, read: Callable[[], str]) -> str:
        """Call what reads a file's content; for ``HostFacts``."""
        return self._watched(path, lambda _: read(), content=True)

    def _watched(self, path: str, ask: Callable[[str], T], *, content: bool = False) -> T:
        if path in self._hanging:
            raise TimeoutError("reading it does not end")
        outer, self.waiting = self.waiting, (path, time.monotonic(), content)
        try:
            return ask(path)
        finally:
            self.waiting = outer


@dataclass(slots=True)
class _Attempt(Generic[T]):
    """The work in a thread, and what it is looking at just now."""

    root: _WatchedRoot
    work: Callable[[Looking, HostFacts], T]
    hanging: frozenset[str]
    glob: str = ""
    """The glob that is being looked at."""
    done: threading.Event = field(default_factory=threading.Event)
    results: list[T] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        """Do the work; the result or what it raised is kept."""
        looker = Looker(self.root)

        def look(pattern: str) -> Look | None:
            # None, rather than nothing: what the glob would exclude is not known then.
            if pattern in self.hanging:
                return None
            outer, self.glob = self.glob, pattern
            try:
                return looker.look(pattern)
            finally:
                self.glob = outer

        facts = HostFacts(self.root, guard=self.root.guard)
        try:
            self.results.append(self.work(look, facts))
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            self.errors.append(error)
        self.done.set()

    def wait(self, look_seconds: float) -> str:
        """Wait for the end: give nothing, or what hangs."""
        while not self.done.wait(look_seconds / 4):
            waiting = self.root.waiting  # read once: the thread goes on meanwhile
            if waiting is None:
                continue
            path, since, content = waiting
            if time.monotonic() - since > look_seconds:
                # A glob is given up where its folder hangs, not for an attribute of one device.
                return path if content or not self.glob else self.glob
        return ""


def patiently(
    root: Root,
    work: Callable[[Looking, HostFacts], T],
    *,
    look_seconds: float = LOOK_SECONDS,
) -> T:
    """Run ``work`` with the means to ask the host; what does not answer is left out.

    ``work`` begins anew each time something hangs, and then does not ask for that any more.
    Raises GenericdpError if there is no end of that.
    """
    hanging: frozenset[str] = frozenset()
    for _ in range(MOST_HANGING + 1):
        attempt = _Attempt(_WatchedRoot(root, hanging), work, hanging)
        # A daemon thread: one that never comes back does not hold up the exit.
        threading.Thread(target=attempt.run, name="looking", daemon=True).start()
        stuck = attempt.wait(look_seconds)
        if not stuck:
            if attempt.errors:
                raise attempt.errors[0]
            return attempt.results[0]
        print_lines([f"looking at {stuck!r} does not end: going on without it"], file=sys.stderr)
        hanging |= {stuck}
    raise GenericdpError("too much of this host does not answer")
