"""The owner of the simulator's background work: whatever it starts ends with it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class Tasks:
    """Tasks that end when it is stopped.

    Unlike a ``TaskGroup`` it may be started in one task and stopped in another, as a kubelet is
    that a test's fixture starts and the test itself restarts.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run something until it is done or the owner is stopped."""
        _ = self.result_of(work, name=name)

    def result_of(self, work: Coroutine[Any, Any, _Result], *, name: str) -> asyncio.Task[_Result]:
        """Do the same and give the task, for those who want to wait for what comes of it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self) -> None:
        """End all; raise the first failure of any of them: each is a mistake of the simulator."""
        while self._tasks:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._tasks.difference_update(tasks)
        if self._failures:
            raise self._failures.pop(0)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=failure)
            self._failures.append(failure)
