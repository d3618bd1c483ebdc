"""Admission of pods: which ids the kubelet picks, what it asks, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.simulator.pods import Container, Pod
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import container, held_by, pod, refused, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.simulator.kubelet import Kubelet

OTHER = "example.com/other"


async def test_one_call_for_each_container_and_resource(
    kubelet: Kubelet, plugin: BarePlugin, plugin_with: Callable[..., BarePlugin]
) -> None:
    """ALL-1: one container request in each call."""
    other = plugin_with(resource=OTHER)
    await other.start()
    await show(kubelet, plugin, "a", "b", "c", "d")
    await show(kubelet, other, "x")
    asking = Pod(
        uid="pod",
        containers=(
            container("one", 2),
            Container(name="two", limits={RESOURCE: 1, OTHER: 1, "cpu": 3}),
        ),
    )
    assert (await kubelet.admit(asking)).admitted
    sizes = [len(r.container_requests[0].devices_ids) for r in plugin.allocate_requests]
    assert sizes == [2, 1]
    assert all(len(r.container_requests) == 1 for r in plugin.allocate_requests)
    assert held_by(kubelet, asking)["two"].keys() == {RESOURCE, OTHER}


async def test_ids_come_in_random_order(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """ALL-1: a plugin that needs an order has to sort."""
    names = [f"device-{n}" for n in range(8)]
    await show(kubelet, plugin, *names)
    orders = set()
    for number in range(5):
        asking = pod(str(number), thing=8)
        assert (await kubelet.admit(asking)).admitted
        orders.add(tuple(plugin.allocate_requests[-1].container_requests[0].devices_ids))
        kubelet.admitter.remove(asking)
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(names)}


async def test_an_empty_answer_leaks_the_ids(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """ALL-2: they are free again only when some other pod goes."""
    await show(kubelet, plugin, "a", "b", "c")
    holder = pod("holder", thing=1)
    assert (await kubelet.admit(holder)).admitted
    plugin.answers.allocate = []
    text = await refused(kubelet, pod(thing=2))
    assert text.startswith("no containers return in allocation response")
    plugin.answers.allocate = None
    assert await refused(kubelet, pod("next", thing=1)) == (
        f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0"
    )
    kubelet.admitter.remove(holder)
    assert (await kubelet.admit(pod("next", thing=3))).admitted


async def test_only_the_first_of_several_answers_counts(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """ALL-2: the others are ignored."""
    plugin.answers.allocate = [
        pb.ContainerAllocateResponse(envs={"N": "1"}),
        pb.ContainerAllocateResponse(envs={"N": "2"}),
    ]
    await show(kubelet, plugin, "a")
    asking = pod(thing=1)
    assert (await kubelet.admit(asking)).admitted
    started = await kubelet.start_container(asking, asking.containers[0])
    assert started.given is not None
    assert started.given.env == {"N": "1"}


async def test_devices_of_a_removed_pod_are_free_at_the_next_allocation(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """ALL-3: there is not a call that says so."""
    await show(kubelet, plugin, "a")
    first, second = pod("first", thing=1), pod("second", thing=1)
    assert (await kubelet.admit(first)).admitted
    assert "Available: 0" in await refused(kubelet, second)
    kubelet.admitter.remove(first)
    assert held_by(kubelet, first) == {"main": {RESOURCE: frozenset({"a"})}}
    assert (await kubelet.admit(second)).admitted
    assert held_by(kubelet, first) == {"main": {}}


async def test_an_error_of_the_plugin_refuses_the_pod_and_frees_the_ids(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """ALL-5: with its code and text in Go's words."""
    await show(kubelet, plugin, "a")
    plugin.answers.allocate_error = "a: no such device"
    assert await refused(kubelet, pod(thing=1)) == (
        "rpc error: code = FailedPrecondition desc = a: no such device"
    )
    plugin.answers.allocate_error = None
    assert (await kubelet.admit(pod("again", thing=1))).admitted


async def test_a_pod_is_refused_in_the_kubelets_words(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """ALL-9: each check in its order, a request for none included."""
    assert (await kubelet.admit(pod("unknown", thing=1))).admitted
    await show(kubelet, plugin, "a", unhealthy=2)
    assert await refused(kubelet, pod(thing=2)) == (
        f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 1"
    )
    plugin.show(unhealthy=["a"])
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    for amount in (0, 1):
        assert await refused(kubelet, pod(thing=amount)) == (
            f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        )
