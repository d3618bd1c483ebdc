"""The real daemon against the stand-in, and pictures of what the node shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.daemon import serve
from genericdp.errors import GenericdpError, UsageError, ungrouped
from genericdp.process.run import Commands
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.trial import RETRY_SECONDS, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Never

    from genericdp.daemon import Settings
    from genericdp.simulator.pods import Start
    from genericdp.simulator.settings import Generation, Topology
    from genericdp.supervisor import Supervisor

FIRST_PICTURE_SECONDS = 30.0
_SETTLE_SECONDS = 0.05
"""What changes in several resources at once is one picture."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What the node shows of one resource."""

    capacity: int
    allocatable: int
    unhealthy: Mapping[str, str] = field(default_factory=dict)
    """Why each Unhealthy device is so, by id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """What the node shows, by resource."""

    resources: Mapping[str, Shown]


class Simulation:
    """Runs both in this process, on real sockets in the folder that the settings name."""

    def __init__(
        self,
        settings: Settings,
        *,
        generation: Generation,
        topology: Topology | None = None,
        amounts: Mapping[str, int],
        once: bool,
        show: Callable[[Picture, Start | None], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._settings = settings
        self._amounts = amounts
        self._once = once
        self._show = show
        self._kubelet = Kubelet(
            settings.kubelet_folder,
            generation=generation,
            topology=topology,
            pod_resources=settings.pod_resources,
        )
        self._trial = Trial(self._kubelet, amounts, retry_seconds=retry_seconds)
        self._start: Start | None = None
        """How the container's last start ended; None: there is no container."""
        self._supervisor: Supervisor | None = None

    async def run(self) -> None:
        """Show the first full picture, then one for each change; raises GenericdpError."""
        async with (
            ungrouped(),
            self._kubelet,
            Commands() as commands,
            asyncio.TaskGroup() as tasks,
        ):
            work = serve(
                self._settings,
                reload=asyncio.Event(),
                commands=commands,
                watched=self._attach,
            )
            serving = tasks.create_task(work, name="daemon")
            await self._first_picture()
            await self._begin()
            if self._once:
                self._show(self._picture(), self._start)
                if self._start is not None and self._start.given is None:
                    raise GenericdpError(f"the container would wait: {self._start.message}")
            else:
                tasks.create_task(self._start_again(), name="container")
                await self._show_changes()
            serving.cancel()

    async def _show_changes(self) -> Never:
        picture, start = self._picture(), self._start
        self._show(picture, start)
        while True:
            await self._kubelet.changed()
            await asyncio.sleep(_SETTLE_SECONDS)
            before, picture = (picture, start), self._picture()
            if (picture, self._start) != before:
                # What the container got, or waits for, is told once.
                self._show(picture, self._start if self._start != start else None)
            start = self._start

    async def _start_again(self) -> None:
        while self._start is not None and self._start.given is None:
            self._start = await self._trial.again()

    def _attach(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def _first_picture(self) -> None:
        try:
            await self._kubelet.wait_for(self._is_complete, FIRST_PICTURE_SECONDS)
        except TimeoutError as error:
            raise GenericdpError(f"the picture was not complete {error}") from error

    def _is_complete(self) -> bool:
        """Say whether the kubelet has the list of every resource."""
        if self._supervisor is None or self._supervisor.resources.value is None:
            return False
        return all(self._kubelet.observed.lists[name] for name in self._supervisor.wanted)

    def _picture(self) -> Picture:
        offers = self._supervisor.lists.value if self._supervisor else {}
        return Picture(
            resources={
                name: Shown(
                    capacity=self._kubelet.capacity(name),
                    allocatable=self._kubelet.allocatable(name),
                    unhealthy={
                        device_id: one.unhealthy
                        for device_id, one in offer.devices.items()
                        if one.unhealthy
                    },
                )
                for name, offer in offers.items()
            }
        )

    async def _begin(self) -> None:
        wanted = self._supervisor.wanted if self._supervisor else {}
        for name in self._amounts:
            if name not in wanted:
                # No kubelet would refuse it: the scheduler keeps such a pod away.
                known = ", ".join(wanted) or "none"
                raise UsageError(f"the config has no resource {name!r} for this node ({known})")
        if self._amounts:
            self._start = await self._trial.begin()
