"""The machine's part of a delay: the time in which runnable processes did not get a core.

The kernel counts for each thread how long it waited on a run queue (``schedstat``). What the soak's
own loop was late by is added: it serves the simulated kubelet.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICK_SECONDS = 0.01


@dataclass(slots=True)
class Mark:
    """A moment, and what each thread of the daemon had waited until then, in seconds."""

    at: float
    late: float
    threads: dict[str, float]
    children: dict[str, float]
    """What each thread of the daemon's children had waited when it was last read."""


class Load:
    """Measures while ``watch`` runs."""

    def __init__(self) -> None:
        self.late = 0.0
        """By how much the soak's loop has been late, all in all, in seconds."""

    async def watch(self) -> None:
        while True:
            due = time.monotonic() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps
            self.late += max(0.0, time.monotonic() - due)

    def mark(self, pid: int | None) -> Mark:
        """Begin an interval; without a process: one that is still to be started."""
        threads = {} if pid is None else waited(pid)
        return Mark(at=time.monotonic(), late=self.late, threads=threads, children={})

    def look_at_children(self, mark: Mark, pid: int) -> None:
        """Take in what the daemon's children wait; they are missing when it is requested."""
        for child in _children(pid):
            mark.children |= waited(child)

    def since(self, mark: Mark, pid: int) -> float:
        """Give by how much one thing after the other may have come later for want of a core.

        In seconds: the soak's own loop, the thread of the daemon that waited longest, and so of its
        children. What waited next to these held up nothing more.
        """
        own = self.late - mark.late
        threads = waited(pid).items()
        daemon = max((s - mark.threads.get(thread, 0.0) for thread, s in threads), default=0.0)
        return own + max(0.0, daemon) + max(mark.children.values(), default=0.0)


def waited(pid: int) -> dict[str, float]:
    """Give how long each thread of a process has waited for a core, in seconds."""
    found: dict[str, float] = {}
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, IndexError, ValueError):
                text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text(encoding="ascii")
                found[thread] = int(text.split()[1]) / 1e9
    return found


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []
