"""Claims that are allocated again before the kubelet has unprepared them, or end meanwhile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from genericdp.dra.claims import Claim, ClaimRecords
from genericdp.errors import UnusableDeviceError
from genericdp.model import HookName

from tests.dra.claims import (
    DRIVER,
    HOOKS,
    NAME,
    Machine,
    Process,
    plug_stick,
    spec_name,
)
from tests.world import resource


async def test_a_prepared_claim_gets_no_more_hardware_while_a_record_cannot_be_read(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, "ttyUSB0", "ttyUSB1", replicas=2)
    (first, share, second, _) = machine.shares
    process = Process(machine, tmp_path)
    for uid, name in (("mine", first), ("damaged", second)):
        machine.allocate(uid, [name])
        assert await process.prepare(uid) == ""
    (tmp_path / "claims/damaged.json").write_text("{")
    process = Process(machine, tmp_path)
    assert await process.prepare("mine") == ""
    for more in (second, share):
        machine.allocate("mine", [first, more])
        assert "damaged.json does not say which hardware" in await process.prepare("mine")
    machine.allocate("mine", [first])
    assert await process.prepare("mine") == ""
    (tmp_path / "claims/damaged.json").unlink()
    assert await process.preparer.honor_markers()
    machine.allocate("mine", [first, share])
    assert await process.prepare("mine") == ""


def recorded_by_another_version(directory: Path) -> None:
    """Let a record have details in a form that is not known."""
    for file in (directory / "claims").iterdir():
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "version": 99, "results": "in another form"}))


async def test_a_claim_that_another_version_has_prepared_runs_no_hook_until_it_is_another(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, "ttyUSB0", "ttyUSB1")
    first, second = machine.shares
    machine.allocate("mine", [first])
    assert await Process(machine, tmp_path).prepare("mine") == ""
    recorded_by_another_version(tmp_path)
    for _ in range(2):  # from then on, it is a record of this version
        process = Process(machine, tmp_path)
        assert await process.prepare("mine") == ""
        assert process.hooks() == ["allocate ttyUSB0"]
        assert not process.preparer.records.claims["mine"].is_foreign
    recorded_by_another_version(tmp_path)
    machine.allocate("mine", [second])
    process = Process(machine, tmp_path)
    assert await process.prepare("mine") == ""
    assert process.hooks()[1:] == ["release ttyUSB0", "allocate ttyUSB1"]
    recorded_by_another_version(tmp_path)
    process = Process(machine, tmp_path, boot="boot-2")
    assert await process.prepare("mine") == ""
    assert process.hooks()[3:] == ["allocate ttyUSB1"]
    recorded_by_another_version(tmp_path)
    process = Process(machine, tmp_path, boot="boot-2")
    assert await process.unprepare("mine") == ""
    assert process.files() == []


async def test_a_release_hook_that_needs_an_unknown_parameter_keeps_no_claim_from_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(tmp_path, "ttyUSB0")
    machine.configure(resource(NAME, "/dev/ttyUSB*", servedBy="dra"))
    machine.look()
    machine.allocate("mine", [*machine.shares])
    process = Process(machine, tmp_path)
    assert await process.prepare("mine") == ""
    hook = {"exec": {"command": ["/bin/true", "$(claim.parameters.mode)"]}}
    keys = {"parameters": {"mode": {"int": {"min": 1}}}, "hooks": {"release": hook}}
    machine.configure(resource(NAME, "/dev/ttyUSB*", servedBy="dra", **keys))
    machine.look()
    process.look()
    assert await process.unprepare("mine") == ""
    assert (process.files(), process.hooks()) == ([], [])
    assert [line for line in caplog.messages if "$(claim.parameters.mode)" in line]


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


async def test_a_device_is_held_while_its_release_hook_runs_even_if_no_record_can_be_written(
    tmp_path: Path,
) -> None:
    held: list[bool] = []

    class Observed(Process):
        async def run_hooks(self, name: HookName, *rest: Any) -> None:
            held.append(bool(self.preparer.known_holds()))
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
    assert process.preparer.known_holds() == []


def choose(machine: Machine, request: str, baud: int, *, source: str = "FromClaim") -> None:
    """Allocate the device to a request of the claim, with a parameter."""
    machine.allocate("mine", [*machine.shares])
    devices = machine.claims["mine"]["status"]["allocation"]["devices"]
    devices["results"][0]["request"] = request
    head = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
    opaque = {"driver": DRIVER, "parameters": {**head, "parameters": {"baud": baud}}}
    devices["config"] = [{"source": source, "requests": [request], "opaque": opaque}]


async def test_a_claim_of_another_alternative_or_parameter_gets_the_edits_of_that(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, "ttyUSB0")
    parameters = {"baud": {"int": {"min": 1, "max": 9, "default": 1}}}
    env = {"BAUD": "$(claim.parameters.baud)"}
    machine.configure(
        resource(
            NAME,
            "/dev/ttyUSB*",
            servedBy="dra",
            parameters=parameters,
            inject={"env": env},
            hooks={"allocate": {"exec": {"command": ["/bin/true"]}}},
        )
    )
    machine.look()
    ran = 0
    for request, baud, source in (
        ("r/big", 7, "FromClaim"),
        ("r/small", 2, "FromClaim"),
        ("r/small", 3, "FromClass"),
    ):
        choose(machine, request, baud, source=source)
        ran += 1
        for _ in range(2):
            process = Process(machine, tmp_path)
            assert await process.prepare("mine") == ""
            assert f'"BAUD={baud}"' in (tmp_path / "cdi" / spec_name("mine")).read_text()
            assert len(process.hooks()) == ran
    file = tmp_path / "claims/mine.json"
    record = json.loads(file.read_text())
    assert record.pop("configurations")  # an earlier build recorded none
    file.write_text(json.dumps(record))
    process = Process(machine, tmp_path)
    assert await process.prepare("mine") == ""
    assert len(process.hooks()) == ran


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
