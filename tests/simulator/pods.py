"""Pods and clocks for tests, and the two steps that most of these begin with."""

from __future__ import annotations

import pytest
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from genericdp.simulator.settings import Generation, Timing
from tests.simulator.bare_plugin import RESOURCE, BarePlugin

impatient = pytest.mark.parametrize(
    "timing", [Timing(dial_seconds=1.0, prestart_seconds=0.2)], ids=["impatient"]
)
"""For tests that wait until the kubelet gives up."""


every_generation = pytest.mark.parametrize("generation", Generation)


def pod(uid: str = "pod", **limits: int) -> Pod:
    """A pod with one container; ``thing=2, other=1`` request these resources."""
    asked = {f"example.com/{name}": amount for name, amount in limits.items()}
    return Pod(uid=uid, containers=(Container(name="main", limits=asked),))


def container(name: str, thing: int) -> Container:
    return Container(name=name, limits={RESOURCE: thing})


def held_by(kubelet: Kubelet, pod: Pod) -> dict[str, dict[str, frozenset[str]]]:
    """Give the IDs that each container of a pod holds, by resource."""
    manager = kubelet.admitter.manager
    assert manager is not None
    return {
        container.name: {
            held.resource: held.ids for held in manager.allocated_to(pod.uid, container.name)
        }
        for container in pod.containers
    }


async def show(kubelet: Kubelet, plugin: BarePlugin, *healthy: str, unhealthy: int = 0) -> None:
    """Register and wait until the list has arrived."""
    plugin.show(*healthy, unhealthy=[f"bad-{n}" for n in range(unhealthy)])
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.capacity(plugin.resource) == len(healthy) + unhealthy)


async def refused(kubelet: Kubelet, asking: Pod) -> str:
    """Admit a pod that must be refused; give the error inside the message."""
    admission = await kubelet.admit(asking)
    assert not admission.admitted
    assert admission.reason == "UnexpectedAdmissionError"
    start, end = "Allocate failed due to ", ", which is unexpected"
    assert admission.message.startswith(start)
    assert admission.message.endswith(end)
    return admission.message.removeprefix(start).removesuffix(end)
