"""A simulated kubelet and bare plugins next to it, and pods for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod, Start
from genericdp.simulator.settings import Generation, Timing
from tests.simulator.bare_plugin import RESOURCE, BarePlugin

impatient = pytest.mark.parametrize(
    "timing", [Timing(dial_seconds=0.3, prestart_seconds=0.2)], ids=["impatient"]
)
"""For tests that wait until the kubelet gives up."""
every_generation = pytest.mark.parametrize("generation", Generation)
only_a = pytest.mark.parametrize("generation", [Generation.A])
only_b = pytest.mark.parametrize("generation", [Generation.B])


@dataclass(kw_only=True)
class Node:
    """A kubelet that runs, and a plugin that serves and has not registered yet."""

    directory: Path
    kubelet: Kubelet
    plugin: BarePlugin
    another: Callable[..., BarePlugin]
    """Makes a plugin that is not started, whose end is taken care of."""

    async def show(self, *healthy: str, unhealthy: int = 0) -> None:
        """Register and wait until the list has arrived."""
        kubelet = self.kubelet
        self.plugin.show(*healthy, unhealthy=[f"bad-{n}" for n in range(unhealthy)])
        await self.plugin.register()
        await kubelet.wait_for(lambda: kubelet.capacity(RESOURCE) == len(healthy) + unhealthy)

    async def serve(self, *healthy: str, **settings: Any) -> BarePlugin:
        """Have another plugin serve, and wait until its list has arrived."""
        kubelet, plugin = self.kubelet, self.another(**settings)
        lists = kubelet.observed.lists[plugin.resource]
        await plugin.serve(*healthy)
        await kubelet.wait_for(lambda: kubelet.observed.lists[plugin.resource] > lists)
        return plugin

    async def has(self, **devices: str) -> None:
        """Wait until these are the devices of the kubelet, by ID."""
        await self.kubelet.wait_for(lambda: self.kubelet.devices(RESOURCE) == devices)

    async def admits(self, pod: Pod) -> Pod:
        """Admit a pod, which must not be refused."""
        admission = await self.kubelet.admit(pod)
        assert admission.admitted, admission.message
        return pod

    async def refuses(self, pod: Pod) -> str:
        """Admit a pod that must be refused; give the error inside the message."""
        admission = await self.kubelet.admit(pod)
        assert not admission.admitted
        assert admission.reason == "UnexpectedAdmissionError"
        start, end = "Allocate failed due to ", ", which is unexpected"
        assert admission.message.startswith(start)
        assert admission.message.endswith(end)
        return admission.message.removeprefix(start).removesuffix(end)

    async def starts(self, pod: Pod) -> Start:
        """Start the container of a pod."""
        return await self.kubelet.start_container(pod, pod.containers[0])

    def held_by(self, pod: Pod) -> dict[str, frozenset[str]]:
        """Give the IDs that the last container of a pod holds, by resource."""
        manager = self.kubelet.admitter.manager
        assert manager is not None
        held = manager.allocated_to(pod.uid, pod.containers[-1].name)
        return {allocation.resource: allocation.ids for allocation in held}


def pod(uid: str = "pod", **limits: int) -> Pod:
    """Return a pod with one container; ``thing=2, other=1`` request these resources."""
    asked = {f"example.com/{name}": amount for name, amount in limits.items()}
    return Pod(uid=uid, containers=(Container(name="main", limits=asked),))
