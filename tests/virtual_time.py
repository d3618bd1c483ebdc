"""Hours that pass in a moment: where everything on a loop waits for a timer, its clock jumps to it.

::

    virtually(main())        # in place of asyncio.run(main())

Sockets work, to servers on the same loop, and so do worker threads that are waited for.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

from genericdp.host.workers import Work

_MOMENT_SECONDS = 0.001
"""What the kernel may need for a connection on loopback."""

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Waits a moment in place of seconds, unless a thread is at work."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= _MOMENT_SECONDS:
            return super().select(timeout)
        ready = super().select(_MOMENT_SECONDS)
        if not ready and not _awaits_thread():
            self.skipped += timeout - _MOMENT_SECONDS
        return ready


def _awaits_thread() -> bool:
    tasks = asyncio.all_tasks(asyncio.get_running_loop())
    return any(isinstance(getattr(task, "_fut_waiter", None), Work) for task in tasks)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._waiting = _Selector()
        super().__init__(self._waiting)

    def time(self) -> float:
        return super().time() + self._waiting.skipped


def virtually(work: Coroutine[object, object, T]) -> T:
    """Run what takes its time, on a clock of its own."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)
