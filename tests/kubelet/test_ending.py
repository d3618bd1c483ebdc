"""The daemon ends in whatever moment it is canceled, and leaves no socket."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.world import FAST, World, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SERIAL = "example.com/serial"
PATIENT = replace(FAST, first_retry=60.0, last_retry=60.0, register=60.0, stream=60.0)


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    world = World(short_folder)
    world.host.plug("ttyUSB0")
    async with world.kubelet:
        yield world


async def turn(times: int) -> None:
    """Let the loop go round so often."""
    for _ in range(times):
        await asyncio.sleep(0)


def left(world: World) -> list[str]:
    return [path.name for path in world.kubelet.folder.glob("genericdp-*")]


@pytest.mark.parametrize("turns", [*range(6), *range(6, 30, 4)])
@pytest.mark.parametrize("how", ["hangs", "refuses", "opens no stream", "takes it"])
async def test_no_moment_of_a_registration_keeps_the_daemon_from_ending(
    world: World, how: str, turns: int
) -> None:
    """Up to Python 3.12 a task group may swallow a cancellation that comes with a failure."""
    world.kubelet.faults.register_delay_seconds = 3600.0 if how == "hangs" else 0.0
    world.kubelet.faults.refuse_register = "no such luck" if how == "refuses" else None
    world.kubelet.faults.stream_delay_seconds = 0.0 if how == "takes it" else 3600.0
    async with asyncio.timeout(60):
        async with world.serving(serial(), timing=PATIENT):
            tried = world.kubelet.observed.registrations
            await world.kubelet.wait_for(lambda: tried[SERIAL] == 1, 30)
            await turn(turns)
    assert left(world) == []


@pytest.mark.parametrize("turns", [*range(0, 40, 4), *range(40, 400, 40)])
async def test_no_moment_of_the_start_keeps_the_daemon_from_ending(
    world: World, turns: int
) -> None:
    """gRPC's own start, canceled half-way, made its stop fail, and SIGTERM was never heard."""
    async with asyncio.timeout(60):
        async with world.serving(serial(), timing=PATIENT):
            await turn(turns)
    assert left(world) == []
