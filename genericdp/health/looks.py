"""Reads of the host that may hang: threads share a batch, and one that hangs is given up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from genericdp.host.workers import start
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_AT_ONCE = 4
"""Limit on the threads that work on one batch, not counting those that are given up."""
MOST_HANGING = 16
"""Limit on the hanging threads of a resource, beyond which none of its looks is begun: threads are
limited (``pids.max``), and other resources need theirs."""
PATIENCE_SECONDS = 0.05
"""When a look takes longer, another thread goes on with the rest of the batch."""


@dataclass(slots=True)
class FileLook:
    """One look; handing it to a thread costs more than most looks, so they come in batches."""

    what: str
    """For people, as ``reading /sys/…``; while one of a name hangs, no other is begun."""
    work: Callable[[], str]
    """Runs in a thread, raises nothing, and returns why it failed; empty: it did not."""
    began: float | None = None
    ended: bool = False
    outcome: Outcome | None = None

    def run(self) -> None:
        """Do the work, in a thread."""
        self.began = time.monotonic()
        try:
            reason = self.work()
        finally:
            self.ended = True
        if self.outcome is None:
            seconds = time.monotonic() - self.began
            self.outcome = Outcome(reason=reason, seconds=seconds)

    def give_up(self, seconds: float = 0.0) -> None:
        """Stop waiting for its end."""
        self.outcome = Outcome(reason=f"{self.what} does not end", seconds=seconds)


_hanging: dict[str, tuple[str, FileLook]] = {}
"""Looks that were given up and whose threads still run, with their resource: there is one thread
for each, not one a period."""


async def look_at_all(
    looks: Sequence[FileLook], *, resource: str, timeout_seconds: float
) -> list[Outcome]:
    """Do all looks off the loop, each with its own timeout."""
    pending = deque(one for one in looks if not _known_to_hang(one))
    batch = _Batch(pending, resource, timeout_seconds)
    try:
        await batch.finish()
    finally:
        batch.pending.clear()  # if it was canceled, the threads take no more
    return [one.outcome for one in looks if one.outcome is not None]


def _known_to_hang(look: FileLook) -> bool:
    hanging = _hanging.get(look.what)
    if hanging is None:
        return False
    if hanging[1].ended:
        del _hanging[look.what]
        return False
    look.give_up()
    return True


def _has_too_many_hanging(resource: str) -> bool:
    hanging = sum(name == resource and not look.ended for name, look in _hanging.values())
    return hanging >= MOST_HANGING


@dataclass(slots=True)
class _Batch:
    pending: deque[FileLook]
    resource: str
    timeout_seconds: float
    running: dict[asyncio.Future[None], list[FileLook]] = field(default_factory=dict)
    """The current look of each thread, in a list that the thread changes."""
    asked: dict[asyncio.Future[None], float] = field(default_factory=dict)
    """When each thread was requested: under a limit, it may start late or never."""

    async def finish(self) -> None:
        self._add_thread()
        while self.running:
            done, _ = await asyncio.wait(
                self.running, timeout=self._wait_seconds(), return_when=asyncio.FIRST_COMPLETED
            )
            for one in done:
                del self.running[one]
                one.result()
            self._give_up_late_ones()
            if not done or not self.running:
                self._add_thread()

    def _add_thread(self) -> None:
        if not self.pending or len(self.running) >= MOST_AT_ONCE:
            return
        if _has_too_many_hanging(self.resource):
            if not self.running:
                self._give_up_the_rest(f"{MOST_HANGING} others of {self.resource} do not end")
            return
        taken: list[FileLook] = []
        thread = start(partial(self._serve, taken))
        self.running[thread], self.asked[thread] = taken, time.monotonic()

    def _serve(self, taken: list[FileLook]) -> None:
        while self.pending:
            try:
                look = self.pending.popleft()
            except IndexError:  # another thread was faster
                return
            taken[:] = [look]
            look.run()

    def _wait_seconds(self) -> float:
        if self.pending and len(self.running) < MOST_AT_ONCE:
            return PATIENCE_SECONDS
        now = time.monotonic()
        begun = [taken[0].began for taken in self.running.values() if taken]
        first = min((one for one in begun if one is not None), default=now)
        return max(first + self.timeout_seconds - now, 0.001)

    def _give_up_late_ones(self) -> None:
        now = time.monotonic()
        for thread, taken in list(self.running.items()):
            if not taken and now - self.asked[thread] >= self.timeout_seconds:
                thread.cancel()
                del self.running[thread]
                if not any(self.running.values()):
                    self._give_up_the_rest("no thread can be started")
            look = taken[0] if taken else None
            if look is None or look.began is None or look.ended:
                continue
            if (seconds := now - look.began) >= self.timeout_seconds:
                look.give_up(seconds)
                _hanging[look.what] = self.resource, look
                del self.running[thread]

    def _give_up_the_rest(self, why: str) -> None:
        while self.pending:
            look = self.pending.popleft()
            reason = f"{look.what} cannot be begun: {why}"
            look.outcome = Outcome(reason=reason)
