"""A second plugin, or a second Register, for one resource: where the generations differ."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import grpc
import pytest
from genericdp.simulator.settings import Generation
from tests.simulator.bare_plugin import RESOURCE, BarePlugin, refusal
from tests.simulator.pods import every_generation, impatient, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.simulator.kubelet import Kubelet

UNKNOWN = grpc.StatusCode.UNKNOWN
DIAL_FAILED = "failed to dial device plugin: context deadline exceeded"
only_a = pytest.mark.parametrize("generation", [Generation.A])
only_b = pytest.mark.parametrize("generation", [Generation.B])


@only_a
async def test_a_second_register_of_a_live_socket_opens_a_second_stream(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-9a: both streams push."""
    plugin.show("a")
    await plugin.register()
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.streams(RESOURCE) == 2)
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 2)
    plugin.show("a", "b")
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 4)


@only_a
async def test_the_end_of_an_old_plugin_cuts_off_the_new_one(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-9b, REG-13: register the new, then stop the old; the new one has to register again."""
    old, new = plugin_with(), plugin_with()
    for plugin in (old, new):
        plugin.show("a", "b")
        await plugin.start()
        await plugin.register()
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 2)
    await old.stop()
    await kubelet.wait_for(lambda: kubelet.paths(RESOURCE) == ())
    assert kubelet.devices(RESOURCE) == {"a": "Unhealthy", "b": "Unhealthy"}
    await new.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 2)


@impatient
@only_a
async def test_a_failed_register_makes_the_kubelet_blind_for_the_old_plugin(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-9c: its death goes unnoticed, its devices stay healthy."""
    plugin.show("a")
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)
    assert await refusal(plugin.register(endpoint="nothing.sock")) == (UNKNOWN, DIAL_FAILED)
    await plugin.stop()
    await kubelet.wait_for(lambda: kubelet.paths(RESOURCE) == ())
    assert kubelet.devices(RESOURCE) == {"a": "Healthy"}
    await kubelet.restart()
    assert kubelet.devices(RESOURCE) == {}


@only_a
async def test_a_register_that_races_with_the_old_streams_end_is_canceled(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-9d: the old stream's end closes the new connection in the middle of its first call."""
    old, new = plugin_with(), plugin_with()
    old.show("a")
    await old.start()
    await new.start()
    await old.register()
    await kubelet.wait_for(lambda: kubelet.streams(RESOURCE) == 1)
    new.answers.options_hang = True
    async with asyncio.TaskGroup() as group:
        registering = group.create_task(refusal(new.register()))
        await new.options_asked.wait()
        await old.stop()
    assert registering.result() == (
        UNKNOWN,
        "failed to get device plugin options: rpc error: code = Canceled"
        " desc = grpc: the client connection is closing",
    )


@only_b
async def test_another_path_is_accepted_beside_the_first_and_the_last_one_remains(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-10: the newest gets the calls; when it goes the other takes over."""
    old, new = plugin_with(), plugin_with()
    for plugin in (old, new):
        plugin.show("a", "b")
        await plugin.start()
        await plugin.register()
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 2)
    assert (await kubelet.admit(pod("first", thing=1))).admitted
    assert (len(old.allocate_requests), len(new.allocate_requests)) == (0, 1)
    await new.stop()
    await kubelet.wait_for(lambda: len(kubelet.paths(RESOURCE)) == 1)
    assert kubelet.devices(RESOURCE) == {"a": "Healthy", "b": "Healthy"}
    assert (await kubelet.admit(pod("second", thing=1))).admitted
    assert len(old.allocate_requests) == 1
    await old.stop()
    await kubelet.wait_for(lambda: set(kubelet.devices(RESOURCE).values()) == {"Unhealthy"})


@only_b
async def test_a_live_path_cannot_be_registered_twice_and_is_poisoned(
    kubelet: Kubelet, plugin: BarePlugin, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-10: the attempt hides the live plugin's end; only another path helps then."""
    path = kubelet.directory / plugin.name
    refused = (UNKNOWN, f"device plugin already connected: {path}")
    plugin.show("a")
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)
    assert await refusal(plugin.register()) == refused
    await plugin.stop()
    await kubelet.wait_for(lambda: len(kubelet.paths(RESOURCE)) == 1)
    assert kubelet.devices(RESOURCE) == {"a": "Healthy"}
    again = plugin_with(name=plugin.name)
    await again.start()
    assert await refusal(again.register()) == refused
    other = plugin_with()
    other.show("b")
    await other.start()
    await other.register()
    await kubelet.wait_for(lambda: kubelet.devices(RESOURCE) == {"b": "Healthy"})


@every_generation
async def test_unique_paths_work_with_every_kubelet(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-11: end the old one, then register another path: never a failure, never a gap left."""
    for number in range(5):
        plugin = plugin_with()
        plugin.show(f"device-{number}")
        await plugin.start()
        await plugin.register()
        await kubelet.wait_for(partial(_has_only, kubelet, f"device-{number}"))
        await plugin.stop()
        await kubelet.wait_for(lambda: kubelet.streams(RESOURCE) == 0)
    assert kubelet.observed.accepted == {RESOURCE: 5}


@every_generation
async def test_resources_do_not_disturb_each_other(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """K6 needs it: one resource's end leaves the others alone."""
    first, second = plugin_with(), plugin_with(resource="example.com/other")
    for plugin in (first, second):
        plugin.show("a")
        await plugin.start()
        await plugin.register()
    await kubelet.wait_for(lambda: kubelet.allocatable("example.com/other") == 1)
    await first.stop()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    assert kubelet.allocatable("example.com/other") == 1


def _has_only(kubelet: Kubelet, device_id: str) -> bool:
    return kubelet.devices(RESOURCE) == {device_id: "Healthy"}
