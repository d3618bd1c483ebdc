"""Claims that are allocated again before the kubelet has unprepared them, or end meanwhile."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from genericdp.dra.claims import Claim, ClaimRecords
from genericdp.errors import UnusableDeviceError
from genericdp.model import HookName

from tests.dra.claims import (
    HOOKS,
    NAME,
    Machine,
    Process,
    plug_stick,
)
from tests.world import resource


async def test_no_release_hook_runs_after_the_allocate_hook_of_the_next_holder(
    tmp_path: Path,
) -> None:
    class SlowDisk(ClaimRecords):
        """The record of the first claim is written while the second one is prepared."""

        async def write(self, claim: Claim, *, is_new: bool = False) -> None:
            if claim.uid == "first":
                assert await process.prepare("second") == ""
            await super().write(claim, is_new=is_new)

    machine = Machine(tmp_path, "ttyUSB0", replicas=2)
    for uid, name in zip(("first", "second"), machine.shares, strict=True):
        machine.allocate(uid, [name])
    assert await Process(machine, tmp_path).prepare("first") == ""
    process = Process(machine, tmp_path, disk=SlowDisk)
    assert await process.unprepare("first") == ""
    assert process.hooks() == ["allocate ttyUSB0", "allocate ttyUSB0"]
    assert await process.unprepare("second") == ""
    assert process.hooks()[2:] == ["release ttyUSB0"]


async def test_hardware_that_a_claim_gets_while_the_daemon_offers_it_again_has_one_holder(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, "ttyUSB0")
    machine.allocate("first", [*machine.shares])
    process = Process(machine, tmp_path)
    machine.configure(resource("example.com/modem", "/dev/ttyUSB*", servedBy="dra"))
    assert await process.prepare("first") == ""
    machine.look()  # at what claims held before
    process.look()
    pool = "node-1/example.com/modem"
    machine.allocate("second", [*process.pools.by_name[pool].shares], pool=pool)
    why = await process.prepare("second")
    assert f"is prepared for claim default/first as ttyUSB0 of {NAME}" in why


async def test_a_call_that_is_repeated_meanwhile_runs_no_hook_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "ttyUSB0")
    machine.allocate("mine", [*machine.shares])
    process = Process(machine, tmp_path)
    assert await asyncio.gather(*(process.prepare("mine") for _ in range(3))) == [""] * 3
    assert process.hooks() == ["allocate ttyUSB0"]
    assert await asyncio.gather(*(process.unprepare("mine") for _ in range(3))) == [""] * 3
    assert process.hooks()[1:] == ["release ttyUSB0"]


async def test_a_device_is_held_while_its_release_hook_runs_even_if_no_record_can_be_written(
    tmp_path: Path,
) -> None:
    held: list[bool] = []

    class Observed(Process):
        async def run_hooks(self, name: HookName, *rest: Any) -> None:
            held.append(bool(self.preparer.holders.known_holds()))
            if len(held) == 1:
                raise UnusableDeviceError("its release hook exited with 3")
            await super().run_hooks(name, *rest)

    machine = Machine(tmp_path, "ttyUSB0")
    machine.allocate("mine", [*machine.shares])
    assert await Process(machine, tmp_path).prepare("mine") == ""
    process = Observed(machine, tmp_path)
    shutil.rmtree(tmp_path / "claims")
    (tmp_path / "claims").touch()
    assert "exited with 3" in await process.unprepare("mine")
    assert "not a directory" in await process.unprepare("mine")
    assert held == [True, True]
    (tmp_path / "claims").unlink()
    assert await process.unprepare("mine") == ""
    assert process.preparer.holders.known_holds() == []


async def test_hardware_that_an_allocate_hook_brings_is_reserved_before_it_is_recorded(
    tmp_path: Path,
) -> None:
    refusals: list[str] = []

    class SlowDisk(ClaimRecords):
        """The record of the first claim is written while the second one requests the device."""

        async def write(self, claim: Claim, *, is_new: bool = False) -> None:
            if claim.uid == "first" and claim.is_prepared:
                refusals.append(await process.prepare("second"))
            await super().write(claim, is_new=is_new)

    class Flashing(Process):
        async def run_hooks(self, name: HookName, *rest: Any) -> None:
            if not self.hooks():  # a stick has another serial number after that
                plug_stick(self.machine.host, 1, number=0, serial="B", address=2)
                self.machine.look()
                self.look()
            await super().run_hooks(name, *rest)

    machine = Machine(tmp_path)
    plug_stick(machine.host, 1, number=0, serial="A")
    keys = {"servedBy": "dra", "id": "$(usb.port)", "hooks": HOOKS}
    machine.configure(resource(NAME, "/dev/ttyUSB*", **keys))
    machine.look()
    for uid in ("first", "second"):
        machine.allocate(uid, [*machine.shares])
    process = Flashing(machine, tmp_path, disk=SlowDisk)
    assert await process.prepare("first") == ""
    (refusal,) = refusals
    assert "is prepared for claim default/first" in refusal
    assert process.hooks() == ["allocate 1-1"]
