"""The ends of plugins whose resource is wanted no more."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genericdp.kubelet.lifecycle import Plugin

log = logging.getLogger(__name__)

_SECONDS = 1.0
"""So long the kubelet has to take the empty list in."""


class Farewells:
    """Lets plugins end, which holds up nothing else."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, plugin: Plugin, life: asyncio.Task[None], tasks: asyncio.TaskGroup) -> None:
        """Let a plugin end that lists nothing any more; ``life`` is the task that it runs in."""
        name = plugin.resource
        farewell = self._say(plugin, life, self._tasks.get(name))
        self._tasks[name] = tasks.create_task(farewell, name=f"end {name}")

    async def over(self, plugin: Plugin) -> None:
        """Wait for the farewell of an earlier plugin of the same resource, if there is one."""
        if leaving := self._tasks.get(plugin.resource):
            plugin.registration.not_registered(
                "it was removed a moment ago, and its farewell is not over"
            )
            await asyncio.wait([leaving])  # never two servers of one resource

    async def _say(
        self, plugin: Plugin, life: asyncio.Task[None], earlier: asyncio.Task[None] | None
    ) -> None:
        """Let the empty list arrive, so that the node shows 0 at once (KST-11), then end.

        It may have returned and be gone again within that second: ``earlier`` is still at it then.
        """
        if plugin.registration.active.value:
            await asyncio.sleep(_SECONDS)
        await end(life)
        if earlier is not None:
            await asyncio.wait([earlier])
        if self._tasks[plugin.resource] is asyncio.current_task():
            del self._tasks[plugin.resource]
        log.info("stopped", extra={"resource": plugin.resource})


async def end(life: asyncio.Task[None]) -> None:
    """End the task that a plugin runs in."""
    life.cancel()
    await asyncio.wait([life])
