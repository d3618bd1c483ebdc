"""Facts that only the daemon's own records have: IDs of earlier versions, several claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.devices.carry_over import missing
from genericdp.devices.decide import decide
from genericdp.devices.device import Member
from genericdp.devices.held import Held, HeldDevice, Name
from genericdp.devices.identity import HardwareIdentity
from genericdp.devices.inventory import Identity
from genericdp.model import ServedBy
from genericdp.reasons import Code

from tests.devices.offering import resource_of
from tests.devices.rack import FAMILIES, Machine, Rack

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Resource

RACK = Rack(FAMILIES["sata"], FAMILIES["can"])
DISKS, PORTS = resource_of("block"), resource_of("net")
FIRST, SECOND, THIRD = "0000:00:17.0-block", "0000:00:17.0-block-ata2", "0000:00:17.0-block-ata3"
FORMER = f"{FIRST}.1"
"""What versions that counted neighbors called the second of two disks."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(RACK, tmp_path / "machine")


def listed(
    machine: Machine, resource: Resource, held: Held, previous: DeviceLists | None = None
) -> DeviceList:
    found = decide(
        (resource,), machine.host, node_name="n", previous=previous or {}, now=0.0, held=held
    )
    return found.lists[resource.name]


def test_a_former_id_stays_with_its_hardware_while_it_is_held(machine: Machine) -> None:
    machine.plug("sata 2", "sata 3")
    assert {*listed(machine, DISKS, Held()).devices} == {SECOND, THIRD}
    before = listed(machine, DISKS, Held(former_ids={DISKS.name: {FORMER}}))
    assert {*before.devices} == {SECOND, FORMER}
    entry = before.devices[FORMER]
    assert entry.device.renamed_to == THIRD
    assert entry.is_healthy, "its pod has it"
    held = HeldDevice(name=Name(DISKS.name, FORMER), identities=entry.device.identities, holders={})
    waiting = listed(machine, DISKS, Held([held]), {DISKS.name: before}).devices
    assert "once the kubelet confirms" in waiting[FORMER].text
    after = listed(machine, DISKS, Held(), {DISKS.name: before}).devices
    assert {name for name, entry in after.items() if entry.is_healthy} == {SECOND, THIRD}


@pytest.mark.parametrize("is_upgrade", [True, False])
def test_an_upgrade_leaves_a_held_id_with_its_hardware_although_it_names_another_now(
    machine: Machine, *, is_upgrade: bool
) -> None:
    """The kernel found the second channel first, so an earlier version counted it first."""
    machine.plug("can 1", "can 0")
    plain = "0000:09:00.0-net"
    found = listed(machine, PORTS, Held(former_ids={PORTS.name: {plain}}, is_upgrade=is_upgrade))
    owners = {
        device_id: machine.parts[entry.device.path].hardware
        for device_id, entry in found.devices.items()
    }
    if is_upgrade:
        assert owners == {plain: "can 1"}
        assert any(entry.code is Code.ID_TAKEN for entry in found.not_offered)
    else:
        assert owners == {plain: "can 0", f"{plain}-port1": "can 1"}


def test_two_claims_of_one_device_hold_all_that_either_was_given() -> None:
    """The first one was given a group of two, of which one has left since."""
    first, second = (
        HeldDevice(
            name=Name("example.com/x", "g", ServedBy.DRA),
            identities=tuple(HardwareIdentity(location=place) for place in places),
            replicas=2,
            holders={share: (f"claim {share}",)},
        )
        for share, places in (("g", ("usb 1", "usb 2")), ("g::1", ("usb 1",)))
    )
    for order in ((first, second), (second, first)):
        held = Held(order)
        (merged,) = held
        assert merged.holders == {"g": ("claim g",), "g::1": ("claim g::1",)}
        assert held.of(HardwareIdentity(location="usb 2")) == [merged]


@pytest.mark.parametrize(("now", "gone"), [(1, ["/dev/video1"]), (2, [])])
def test_as_many_members_are_missing_as_have_not_come_back_to_a_place(
    now: int, gone: list[str]
) -> None:
    """The kernel counts on, and nothing tells two members at one place apart."""
    videos = [
        Member(
            key=f"char:{number}",
            path=f"/dev/video{number}",
            identity=Identity(inode=number),
            hardware=HardwareIdentity(location="usb 1", part="video4linux"),
        )
        for number in range(4)
    ]
    assert [member.path for member in missing(videos[:2], videos[2 : 2 + now])] == gone
