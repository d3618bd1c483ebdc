"""Asks the host off the loop; what hangs concerns what lies in it, nothing else."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from genericdp.host.cache import CHANGED_FILES, HostCache, Stale
from genericdp.host.root import BlindError
from genericdp.host.udevdb import udevd_runs
from genericdp.host.workers import start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from genericdp.host.root import Root
    from genericdp.host.uevents import Uevent

T = TypeVar("T")

log = logging.getLogger(__name__)

RECORD_SECONDS = 2.0
"""How long a new device waits for udev to record its properties."""

LOOK_SECONDS = 5.0
"""How long a look at one glob may take before the others go on without it."""
NEXT_LOOK_SECONDS = 1.0
"""How long at most once something else hangs in the same reconcile: all of a server may be gone."""

AGAIN_SECONDS = 2.0
"""After this time what could not be read is looked at again,"""
LONGEST_AGAIN_SECONDS = 30.0
"""and after twice the time whenever that was in vain, but for no longer than this."""


class HostReader:
    """Owns the cache of what the host has said, and has events make it stale."""

    def __init__(
        self,
        root: Root,
        *,
        look_again: Callable[[], None],
        look_seconds: float = LOOK_SECONDS,
        now: Callable[[], float] = time.monotonic,
        cache: Callable[..., HostCache] = HostCache,
    ) -> None:
        self.folders: frozenset[str] = frozenset()
        """Where a change calls for another reconcile; paths of the host."""
        self.due: float | None = None
        """When to ask again without an event, on the monotonic clock, in seconds."""
        self._root = root.wary()
        self._look_again = look_again
        self._look_seconds = look_seconds
        self._now = now
        self._cache = cache
        self._hanging: set[str] = set()
        self._host = self._anew()
        self._stale = Stale()
        self._blind = False
        """Whether nothing can be concluded from the host just now."""
        self._troubles: set[str] = set()
        """What could not be read in the last reconcile, and why."""
        self._pause = AGAIN_SECONDS
        self._again = 0.0
        """When to read again what could not be read."""
        self._arrived: dict[str, float] = {}

    def _anew(self, before: HostCache | None = None) -> HostCache:
        """Return a cache that has to ask the host everything."""
        return self._cache(self._root, before, hanging=self._hanging, now=self._now)

    def mark_event(self, event: Uevent | None) -> None:
        """Have what the kernel told of read again. None: everything is."""
        if event is None:
            self._host = self._anew(self._host)
        else:
            self._stale.syspaths |= {event.syspath, event.former_syspath} - {""}
            if event.action == "add":
                self._arrived[event.syspath] = self._now()
        self._look_again()

    def mark_record(self, name: str | None) -> None:
        """Have what udev has written read again. None: everything is."""
        if name is None:
            self._host = self._anew(self._host)
        else:
            self._stale.records.add(name)
        self._look_again()

    def mark_file(self, path: str | None) -> None:
        """Have a path of the host looked at again that may lead to something else. None: any.

        The caller asks for the reconcile.
        """
        if path is None:
            self._stale.all_files = True
        else:
            self._stale.paths.add(path)

    async def ask(
        self, work: Callable[[HostCache], T], *, full: bool = True, wants_records: bool = False
    ) -> T:
        """Run ``work`` in a daemon thread, anew where something hangs, and return its result.

        ``full``: everything is read again, else what is stale. ``wants_records``: whether ``work``
        asks for what udev records. Raises what ``work`` raises; waits while nothing can be read.
        """
        stale, self._stale = self._stale, Stale()
        waiting = self._waiting(stale)
        if full or CHANGED_FILES in self._hanging:
            self._host, stale = self._anew(self._host), Stale()
        if not wants_records:
            waiting = {}
        patience = self._look_seconds
        while True:
            host = self._host
            host.awaiting = frozenset(waiting)
            result = start(partial(self._run, work, host, stale))
            stuck = ""
            while not result.done() and not (stuck := host.stuck(patience)):
                await asyncio.wait([result], timeout=patience / 4)
            if result.done() and (blind := result.exception()) is not None:
                self._host, stale = self._anew(self._host), Stale()
                await self._wait_blind(blind)
                continue
            if result.done():
                host.settle()
                self._log_unreadable(host.unreadable)
                due = [*waiting.values(), *([self._again] if self._troubles else [])]
                self.folders, self.due = frozenset(host.folders), min(due, default=None)
                return result.result()
            # The thread may still write into what it holds.
            self._give_up(stuck, result)
            patience = min(self._look_seconds, NEXT_LOOK_SECONDS)
            self._host, stale = self._anew(self._host), Stale()

    @staticmethod
    def _run(work: Callable[[HostCache], T], host: HostCache, stale: Stale) -> T:
        host.forget(stale)
        return work(host)

    def _waiting(self, stale: Stale) -> dict[str, float]:
        """Return the devices that have just appeared, and until when udev may take to record them.

        Only where udev runs. Once that time is over, a device is ``stale``: what is known of it is
        what was read before udev had its chance.
        """
        now = self._now()
        late = {one for one, since in self._arrived.items() if now - since >= RECORD_SECONDS}
        stale.syspaths |= late
        for syspath in late:
            del self._arrived[syspath]
        if not self._arrived or not udevd_runs(self._root):
            return {}
        return {syspath: since + RECORD_SECONDS for syspath, since in self._arrived.items()}

    async def _wait_blind(self, error: BaseException) -> None:
        """Wait a moment where nothing can be concluded; raises any other error."""
        if not isinstance(error, BlindError):
            raise error
        if not self._blind:
            log.warning("the host cannot be looked at (%s): what is known of it stays", error)
        self._blind = True
        await asyncio.sleep(AGAIN_SECONDS)

    def _log_unreadable(self, troubles: set[str]) -> None:
        """Log what cannot be read since this reconcile, or can be again; plan when to try."""
        if self._blind:
            self._blind = False
            log.info("the host can be looked at again")
        troubles = {one for one in troubles if not _is_below(one, troubles)}
        for trouble in sorted(troubles - self._troubles):
            log.warning("%s: what is known of it stays", trouble)
        for trouble in sorted(self._troubles - troubles):
            log.info("%s can be read again", trouble.partition(" cannot be read")[0])
        now = self._now()
        if troubles - self._troubles:
            self._pause, self._again = AGAIN_SECONDS, now + AGAIN_SECONDS
        elif now >= self._again:
            self._pause = min(2 * self._pause, LONGEST_AGAIN_SECONDS)
            self._again = now + self._pause
        self._troubles = troubles

    def _give_up(self, pattern: str, result: asyncio.Future[Any]) -> None:
        """Leave the thread alone until its look ends, if ever; then look again."""
        log.warning("looking at %s does not end: going on without it", pattern)
        self._hanging.add(pattern)

        def ended(result: asyncio.Future[Any]) -> None:
            if not result.cancelled():
                result.exception()  # taken note of: what it found is out of date anyway
            log.info("looking at %s has ended", pattern)
            self._hanging.discard(pattern)
            self._host = self._anew(self._host)  # this has been told that it hangs
            self._look_again()

        result.add_done_callback(ended)


def _is_below(trouble: str, others: Collection[str]) -> bool:
    """Return whether the folder of a path that cannot be read is another such path."""
    folder = trouble.partition(" cannot be read")[0].rpartition("/")[0]
    return any(one.startswith(f"{folder} cannot be read") for one in others)
