"""A pod on trial: one container that asks for devices and is started until it runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genericdp.errors import GenericdpError
from genericdp.simulator.pods import Container, Pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.simulator.kubelet import Kubelet
    from genericdp.simulator.pods import Start

RETRY_SECONDS = 10.0
"""How long the kubelet waits before it tries again to start a container (PRE-1)."""


class Trial:
    """The one pod of a simulation."""

    def __init__(
        self, kubelet: Kubelet, amounts: Mapping[str, int], *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._kubelet = kubelet
        self._retry_seconds = retry_seconds
        self._container = Container(name="container", limits=amounts)
        self._pod = Pod(uid="simulated", containers=(self._container,))

    async def begin(self) -> Start:
        """Admit the pod, start its container once; raises GenericdpError if it is refused."""
        admission = await self._kubelet.admit(self._pod)
        if not admission.admitted:
            why = f"{admission.reason}: {admission.message}"
            raise GenericdpError(f"no container would get this: {why}")
        return await self._kubelet.start_container(self._pod, self._container)

    async def again(self) -> Start:
        """Start the container once more, after the time that the kubelet waits."""
        await asyncio.sleep(self._retry_seconds)
        return await self._kubelet.start_container(self._pod, self._container)
