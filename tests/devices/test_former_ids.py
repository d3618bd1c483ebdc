"""IDs of versions that counted neighbors, which pods still hold at an upgrade."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.decide import decide
from genericdp.devices.held import Held, HeldDevice, Name
from genericdp.reasons import Code
from tests.devices.machines import Machine, Port, SataDisk
from tests.devices.offering import resource_of

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists

DISKS = resource_of("block")
SECOND, THIRD = "0000:00:17.0-block-ata2", "0000:00:17.0-block-ata3"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two disks, of which an earlier version called the second one ``.1``."""
    machine = Machine(tmp_path / "machine")
    machine.plug(*(SataDisk(port, f"naa.5000c500{port}") for port in (2, 3)))
    return machine


def run(machine: Machine, held: Held, previous: DeviceLists | None = None) -> DeviceLists:
    return decide(
        (DISKS,), machine.host(), node_name="n", previous=previous or {}, now=0.0, held=held
    ).lists


def test_a_held_id_that_no_device_has_any_more_stays_with_its_hardware(machine: Machine) -> None:
    alone = set(run(machine, Held())[DISKS.name].devices)
    assert alone == {SECOND, THIRD}
    former = Held(former_ids={DISKS.name: {"0000:00:17.0-block.1"}})
    listed = run(machine, former)[DISKS.name].devices
    assert set(listed) == {SECOND, "0000:00:17.0-block.1"}
    assert listed["0000:00:17.0-block.1"].device.renamed_to == THIRD
    assert listed["0000:00:17.0-block.1"].is_healthy, "its pod has it"


def test_it_becomes_the_new_id_when_it_is_free(machine: Machine) -> None:
    former = Held(former_ids={DISKS.name: {"0000:00:17.0-block.1"}})
    before = run(machine, former)
    device = before[DISKS.name].devices["0000:00:17.0-block.1"].device
    entry = HeldDevice(name=Name(DISKS.name, device.id), identities=device.identities, holders={})
    waiting = run(machine, Held([entry]), before)[DISKS.name].devices
    assert "once the kubelet confirms" in waiting[device.id].text
    after = run(machine, Held(), before)[DISKS.name].devices
    assert {name for name, one in after.items() if one.is_healthy} == {SECOND, THIRD}


def test_an_id_that_a_device_has_now_is_not_taken_for_a_former_one(machine: Machine) -> None:
    machine.plug(SataDisk(1, "naa.5000c5001"))
    former = Held(former_ids={DISKS.name: {"0000:00:17.0-block"}})
    listed = run(machine, former)[DISKS.name].devices
    assert set(listed) == {"0000:00:17.0-block", SECOND, THIRD}


@pytest.mark.parametrize("is_upgrade", [True, False])
def test_an_upgrade_leaves_a_held_id_with_its_hardware_although_it_names_another_now(
    tmp_path: Path, *, is_upgrade: bool
) -> None:
    """The kernel found the second channel first, so an earlier version counted it first."""
    machine = Machine(tmp_path / "card")
    second, first = Port("0000:04:00.0", 1, "can"), Port("0000:04:00.0", 0, "can")
    machine.plug(second, first)
    interfaces = resource_of("net")
    plain = "0000:04:00.0-net"
    held = Held(former_ids={interfaces.name: {plain}}, is_upgrade=is_upgrade)
    lists = decide((interfaces,), machine.host(), node_name="n", previous={}, now=0.0, held=held)
    listed = lists.lists[interfaces.name]
    owners = {
        device_id: machine.parts[one.device.path].hardware
        for device_id, one in listed.devices.items()
    }
    if is_upgrade:
        assert owners == {plain: second}
        assert any(one.code is Code.ID_TAKEN for one in listed.not_offered)
    else:
        assert owners == {plain: first, f"{plain}-port1": second}
