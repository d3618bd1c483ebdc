"""What a test can make the kubelet do wrong, beyond what it does by nature."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.simulator.settings import Faults
from tests.simulator.bare_plugin import RESOURCE, BarePlugin, refusal, registering

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.simulator.kubelet import Kubelet

GAVE_UP = grpc.StatusCode.DEADLINE_EXCEEDED


async def test_register_may_hang_until_the_kubelet_ends(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    kubelet.faults.register_hangs = True
    async with registering(plugin):
        await kubelet.wait_for(lambda: kubelet.observed.registrations[RESOURCE] == 1)
    assert not plugin.options_asked.is_set()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(refusal(plugin.register()))
        await kubelet.wait_for(lambda: kubelet.observed.registrations[RESOURCE] == 2)
        await kubelet.crash()
    assert waiting.result()[0] is not GAVE_UP


async def test_register_may_answer_too_late_for_work_that_is_done(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    kubelet.faults.answer_delay_seconds = 60.0
    plugin.show("a")
    async with registering(plugin):
        await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)
    assert kubelet.observed.accepted == {RESOURCE: 1}


async def test_register_may_be_refused(
    kubelet_with: Callable[..., Kubelet], plugin_with: Callable[..., BarePlugin]
) -> None:
    kubelet = kubelet_with(faults=Faults(refuse_register="no room"))
    await kubelet.start()
    plugin = plugin_with()
    await plugin.start()
    assert await refusal(plugin.register()) == (grpc.StatusCode.UNKNOWN, "no room")
    kubelet.faults.refuse_register = None
    await plugin.register()


@pytest.mark.parametrize("count", [0, 2])
async def test_the_kubelet_may_open_no_stream_or_two(
    kubelet: Kubelet, plugin: BarePlugin, count: int
) -> None:
    kubelet.faults.streams_opened = count
    plugin.show("a")
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == count)
    assert (kubelet.streams(RESOURCE), plugin.streams) == (count, count)


async def test_a_frozen_kubelet_takes_nothing_in_until_it_goes_on(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    plugin.show("a")
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)
    kubelet.freeze()
    plugin.show("a", "b")
    assert (await refusal(plugin.register(within_seconds=0.05)))[0] is GAVE_UP
    assert kubelet.allocatable(RESOURCE) == 1
    kubelet.thaw()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 2)


async def test_the_folder_may_vanish_and_return_under_the_kubelet(
    kubelet: Kubelet, plugin: BarePlugin, plugin_with: Callable[..., BarePlugin]
) -> None:
    plugin.show("a")
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)
    shutil.rmtree(kubelet.folder)
    await kubelet.crash()
    await kubelet.start()
    assert kubelet.socket.is_socket()
    again = plugin_with()
    again.show("a")
    await again.start()
    await again.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)


async def test_waiting_in_vain_tells_how_things_stand(kubelet: Kubelet) -> None:
    with pytest.raises(TimeoutError, match=r"not in 0\.01 s; running: True, .*lists: \{\}"):
        await kubelet.wait_for(lambda: False, timeout_seconds=0.01)


async def test_a_kubelet_cannot_be_started_twice_and_may_be_stopped_twice(
    kubelet: Kubelet,
) -> None:
    with pytest.raises(RuntimeError, match="running already"):
        await kubelet.start()
    await kubelet.stop()
    await kubelet.stop()
    await kubelet.crash()
    async with kubelet:
        assert kubelet.is_running
    assert not kubelet.is_running
