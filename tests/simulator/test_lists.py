"""Test what the kubelet makes of the lists that a plugin sends."""

from __future__ import annotations

import pytest
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.simulator.client import MAX_LIST_BYTES
from genericdp.simulator.kubelet import Kubelet
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import show


async def test_without_a_first_list_the_resource_is_absent(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """LAW-1: registration alone gives the node nothing."""
    kubelet.faults.stream_delay_seconds = 3600.0
    await plugin.register()
    assert kubelet.capacity(RESOURCE) == 0
    assert plugin.streams == 0


async def test_each_list_replaces_everything(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """LAW-2: what a list does not have is missing."""
    await show(kubelet, plugin, "a", "b", unhealthy=1)
    assert kubelet.devices(RESOURCE) == {"a": "Healthy", "b": "Healthy", "bad-0": "Unhealthy"}
    plugin.show("bad-0")
    await kubelet.wait_for(lambda: kubelet.devices(RESOURCE) == {"bad-0": "Healthy"})


async def test_an_empty_list_is_a_list(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """LAW-3: it takes away what there was."""
    await show(kubelet, plugin, "a")
    plugin.show()
    await kubelet.wait_for(lambda: kubelet.capacity(RESOURCE) == 0)
    assert kubelet.observed.lists[RESOURCE] == 2


async def test_an_id_with_both_healths_counts_twice(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """LAW-4: five from four ids; the same health twice counts once, an empty id counts."""
    plugin.show("a", "a", "b", "", unhealthy=["a", "c"])
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.capacity(RESOURCE) == 5)
    assert kubelet.allocatable(RESOURCE) == 3


async def test_only_one_word_is_healthy(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """LAW-5: any other text is unhealthy."""
    words = ("Healthy", "healthy", "HEALTHY", "", "Healthy ", "Unknown")
    plugin.send([pb.Device(ID=f"is {word!r}", health=word) for word in words])
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.capacity(RESOURCE) == len(words))
    assert kubelet.allocatable(RESOURCE) == 1


async def test_a_list_beyond_four_mebibytes_ends_the_stream(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """LAW-6: one of the limit arrives, one byte more does not."""
    fits = _list_of(MAX_LIST_BYTES)
    plugin.send(fits)
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.capacity(RESOURCE) == len(fits))
    plugin.send(_list_of(MAX_LIST_BYTES + 1))
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    assert kubelet.observed.lists[RESOURCE] == 1
    assert kubelet.streams(RESOURCE) == 0


async def test_when_a_plugin_goes_its_devices_are_unhealthy(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """KST-7: capacity stays."""
    await show(kubelet, plugin, "a", "b")
    await plugin.stop()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    assert kubelet.capacity(RESOURCE) == 2


@pytest.mark.parametrize("end", ["by the plugin", "by a reset"])
async def test_a_stream_that_ends_is_never_opened_again(
    kubelet: Kubelet, plugin: BarePlugin, end: str
) -> None:
    """KST-7, K3: not the kubelet's business; the plugin has to register again."""
    await show(kubelet, plugin, "a")
    if end == "by the plugin":
        plugin.end_streams()
    else:
        kubelet.break_streams(RESOURCE)
    await kubelet.wait_for(lambda: kubelet.devices(RESOURCE) == {"a": "Unhealthy"})
    assert kubelet.streams(RESOURCE) == 0
    assert plugin.streams == 1


def _list_of(size: int) -> list[pb.Device]:
    """Make a list whose message has exactly this many bytes."""
    devices = [pb.Device(ID=f"{n:060}", health="Healthy") for n in range(size // 100)]
    have = pb.ListAndWatchResponse(devices=devices).ByteSize()
    last = pb.Device(health="Healthy")
    overhead = pb.ListAndWatchResponse(devices=[last]).ByteSize()
    for length in range(size - have - overhead, 0, -1):
        last.ID = "x" * length
        if have + pb.ListAndWatchResponse(devices=[last]).ByteSize() == size:
            return [*devices, last]
    raise AssertionError("no length fits")
