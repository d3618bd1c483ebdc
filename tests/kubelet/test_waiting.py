"""Registrations that are late, hang or are given up, against the stand-in in both generations."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from genericdp.simulator.kubelet import Kubelet
from tests.world import FAST, World, serial

SERIAL = "example.com/serial"
PATIENT = replace(FAST, first_retry=60.0, last_retry=60.0)
"""Waits so long between attempts that only an event can have ended the wait."""


@pytest.mark.parametrize("honours_cancel", [False, True])
async def test_a_late_answer_is_waited_for_with_the_same_socket(
    world: World, honours_cancel: bool
) -> None:
    """REG-2, REG-3: a stuck kubelet completes the call later: one stream, no second attempt."""
    world.host.plug("ttyUSB0")
    world.kubelet.faults.honours_cancel = honours_cancel
    world.kubelet.faults.answer_delay_seconds = 0.6
    async with world.kubelet, world.serving(serial()) as daemon:
        await world.listed(SERIAL, "ttyUSB0")
        await daemon.registered(SERIAL)
        assert world.kubelet.observed.registrations[SERIAL] == 1


@pytest.mark.parametrize("honours_cancel", [False, True])
async def test_a_register_that_is_given_up_is_tried_again(
    world: World, honours_cancel: bool
) -> None:
    """REG-3: whatever the kubelet makes of the first call afterwards."""
    world.host.plug("ttyUSB0")
    world.kubelet.faults.honours_cancel = honours_cancel
    world.kubelet.faults.register_delay_seconds = 0.3
    async with world.kubelet, world.serving(serial(), timing=replace(FAST, register=0.1)):
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 2)
        world.kubelet.faults.register_delay_seconds = 0.0
        await world.listed(SERIAL, "ttyUSB0")
        await world.kubelet.wait_for(lambda: world.kubelet.streams(SERIAL) == 1)


async def test_a_kubelet_that_opens_no_stream_is_asked_again(world: World) -> None:
    """REG-12: a registration without a stream has failed."""
    world.host.plug("ttyUSB0")
    world.kubelet.faults.stream_delay_seconds = 3600.0
    timing = replace(FAST, stream=0.05)
    async with world.kubelet, world.serving(serial(), timing=timing):
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] > 1)
        world.kubelet.faults.stream_delay_seconds = 0.0
        await world.listed(SERIAL, "ttyUSB0")


@pytest.mark.parametrize("how", ["dies", "is-left-alive"])
async def test_a_hanging_register_ends_when_the_kubelet_is_replaced(world: World, how: str) -> None:
    """KST-3: the wait for a lost answer ends with the kubelet that owes it, at the latest."""
    world.host.plug("ttyUSB0")
    world.kubelet.faults.register_delay_seconds = 3600.0
    other = Kubelet(world.kubelet.folder, generation=world.kubelet.generation)
    timing = replace(PATIENT, register=60.0)
    async with AsyncExitStack() as kubelets, world.serving(serial(), timing=timing):
        await kubelets.enter_async_context(world.kubelet)
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] == 1)
        if how == "dies":
            await world.kubelet.crash()
        await kubelets.enter_async_context(other)
        await other.wait_for(lambda: other.allocatable(SERIAL) == 1)
