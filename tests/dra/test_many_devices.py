"""Test what a claim costs on a node with many devices, counted in calls of functions."""

from __future__ import annotations

from cProfile import Profile
from typing import TYPE_CHECKING

from tests.dra.claims import Machine, Process

if TYPE_CHECKING:
    from pathlib import Path


async def calls_for_a_claim(directory: Path, devices: int) -> int:
    """Return how many calls the event loop makes to prepare and to unprepare a claim."""
    directory.mkdir()
    machine = Machine(directory, *(f"ttyUSB{number}" for number in range(devices)))
    process = Process(machine, directory)
    names = [*machine.shares]
    for uid, name in (("other", names[0]), ("first", names[1]), ("one", names[2])):
        machine.allocate(uid, [name])
    for uid in ("other", "first"):  # the first call does what is only done once
        assert not await process.prepare(uid)
    assert not await process.unprepare("first")
    with Profile() as profile:
        assert not await process.prepare("one")
        assert not await process.unprepare("one")
    return sum(entry.callcount for entry in profile.getstats())


async def test_a_claim_costs_the_same_however_many_devices_are_on_offer(tmp_path: Path) -> None:
    """Each claim went through all devices of the node, several times."""
    few = await calls_for_a_claim(tmp_path / "few", 10)
    assert await calls_for_a_claim(tmp_path / "many", 200) < 1.1 * few
