"""What pods and claims hold is known as hardware, through replugs, reboots and edits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.held import Held, HeldDevice, Name
from genericdp.devices.identity import HardwareIdentity
from genericdp.model import ServedBy, ValueKind, ValueSource
from genericdp.template import parse
from tests.devices.holding import Node
from tests.devices.machines import Loop, Machine, Partition, SataDisk, SerialPort, UsbDevice
from tests.devices.making import selector
from tests.devices.offering import offers, resource_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.model import Resource
    from tests.devices.holding import Hold
    from tests.devices.machines import Hardware

SERIAL = resource_of("tty")
DISKS = resource_of("block")
FIRST, SECOND = "1-1.1:1.0-tty", "1-1.2:1.0-tty"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def stick(port: str, serial: str = "", product: str = "6001") -> SerialPort:
    """Return an adapter with one port."""
    return SerialPort(UsbDevice(port, serial, product))


def move(machine: Machine, *sticks: tuple[SerialPort, str]) -> None:
    """Plug sticks into other ports."""
    machine.unplug(*(its.usb for its, _ in sticks))
    for its, port in sticks:
        its.usb.port = port
    machine.plug(*(its for its, _ in sticks))


def give(node: Node, hardware: Hardware) -> Hold:
    """Start a pod with hardware."""
    return next(
        node.give(name, listed)
        for name, listed in node.free()
        if node.machine.parts[listed.device.path].hardware is hardware
    )


def free(node: Node) -> list[Hardware]:
    """Return the hardware that the kubelet could give away."""
    paths = (listed.device.path for _, listed in node.free())
    return [node.machine.parts[path].hardware for path in paths]


def ids(node: Node) -> dict[Hardware, list[str]]:
    """Return under which names hardware is offered, held or not."""
    return {part.hardware: its for (_, part), its in offers(node.lists, node.machine).items()}


def test_a_held_stick_is_not_offered_in_another_port(machine: Machine) -> None:
    held, other = stick("1-1.1", "A1"), stick("1-3", "A3")
    machine.plug(held, other)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    move(machine, (held, "1-1.2"))
    for _ in range(2):
        node.look()
        assert free(node) == [other]
        node.restart_daemon()
    node.holds.clear()
    node.look()
    assert ids(node) == {held: [SECOND], other: ["1-3:1.0-tty"]}


def test_a_held_stick_that_comes_back_is_its_holders(machine: Machine) -> None:
    held = stick("1-1.1", "A1")
    machine.plug(held)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    for port in ("1-1.2", "1-1.1"):
        move(machine, (held, port))
        node.look()
        assert free(node) == []
    assert ids(node) == {held: [FIRST]}


@pytest.mark.parametrize(
    "other",
    [stick("1-1.1", "A2"), stick("1-1.1", "", "6011")],
    ids=["another serial number", "another product"],
)
def test_other_hardware_in_its_place_is_not_what_its_holder_has(
    other: SerialPort, machine: Machine
) -> None:
    held = stick("1-1.1", "" if other.usb.serial == "" else "A1")
    machine.plug(held)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    machine.unplug(held.usb)
    machine.plug(other)
    for _ in range(2):
        node.look()
        assert ids(node) == {}
        node.restart_daemon()
    node.holds.clear()
    node.look()
    assert ids(node) == {other: [FIRST]}


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


IMAGES = resource_of(
    "block",
    id="$(value.image)",
    values={
        "image": ValueSource(
            kind=ValueKind.TEXT, source=parse("$(attribute.loop/backing_file)"), regex="([a-z]+)$"
        )
    },
)


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "not held"])
def test_an_attribute_that_the_id_is_made_of_tells_hardware_apart(
    machine: Machine, *, is_held: bool
) -> None:
    held, other = Loop("loop0", "/images/held"), Loop("loop0", "/images/other")
    machine.plug(held)
    node = Node(machine, (IMAGES,))
    node.look()
    if is_held:
        give(node, held)
    machine.unplug(held)
    node.look()
    held.name = "loop1"
    machine.plug(other, held)
    for _ in range(2):
        node.look()
        assert ids(node) == {held: ["held"], other: ["other"]}
        assert free(node) == ([other] if is_held else [held, other])
        node.restart_daemon()


def test_a_device_without_the_attribute_of_the_id_does_not_pass_for_the_held_one(
    machine: Machine,
) -> None:
    """The kernel shows a loop device before the file behind it."""
    held, other = Loop("loop0", "/images/held"), Loop("loop0")
    machine.plug(held)
    node = Node(machine, (IMAGES,))
    node.look()
    give(node, held)
    machine.unplug(held)
    machine.plug(other)
    node.look()
    assert ids(node) == {}
    other.file = "/images/other"
    for _ in range(2):
        node.look()
        assert ids(node).get(other) != ["held"]
        node.restart_daemon()


def test_a_loop_device_called_by_its_name_is_the_same_whatever_file_it_has(
    machine: Machine,
) -> None:
    loop = Loop("loop0", "/images/a")
    machine.plug(loop)
    node = Node(machine, (DISKS,))
    node.look()
    give(node, loop)
    machine.unplug(loop)
    loop.file = "/images/b"
    machine.plug(loop)
    node.look()
    assert ids(node) == {loop: ["loop0"]}
    assert free(node) == []


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen unplugged", "swapped at once"])
def test_swapped_sticks_go_to_no_other_pod(machine: Machine, *, is_seen: bool) -> None:
    held, other = stick("1-1.1", "A1"), stick("1-1.2", "A2")
    machine.plug(held, other)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    if is_seen:
        machine.unplug(held.usb, other.usb)
        node.look()
    move(machine, (held, "1-1.2"), (other, "1-1.1"))
    node.look()
    assert held not in free(node)
    assert ids(node).get(other) != [FIRST], "its pod has another stick under this ID"


def test_a_stick_without_a_serial_number_does_not_pass_for_the_held_one(machine: Machine) -> None:
    """It takes the place of the held one, which is in another port: its serial number says so."""
    held, nameless = stick("1-1.1", "A1"), stick("1-1.1")
    machine.plug(held)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    machine.unplug(held.usb)
    machine.plug(nameless)
    move(machine, (held, "1-1.2"))
    for _ in range(2):
        node.look()
        assert held not in free(node)
        node.restart_daemon()


def test_a_held_stick_does_not_pass_for_one_without_a_serial_number(machine: Machine) -> None:
    """It takes the place of another one that is held: that one's pod must not get it."""
    held, nameless = stick("1-1.1", "A1"), stick("1-1.2")
    machine.plug(held, nameless)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    give(node, nameless)
    machine.unplug(nameless.usb)
    move(machine, (held, "1-1.2"))
    for _ in range(2):
        node.look()
        assert not [*node.foreign()]
        assert free(node) == []
        node.restart_daemon()


def test_an_equal_stick_without_a_serial_number_is_its_holders(machine: Machine) -> None:
    """Nothing tells them apart, so it is the same one for all that is known."""
    held, equal = stick("1-1.1"), stick("1-1.1")
    machine.plug(held)
    node = Node(machine, (SERIAL,))
    node.look()
    hold = give(node, held)
    machine.unplug(held.usb)
    machine.plug(equal)
    node.look()
    assert ids(node) == {equal: [hold.name.share]}
    node.resources = (replace(SERIAL, id=parse("$(device.name)")),)
    node.look()
    assert free(node) == []


def test_sticks_with_equal_serial_numbers_are_each_offered(machine: Machine) -> None:
    """Cheap adapters all have the number 0001: one that is in its own port has not moved."""
    held, equal = stick("1-1.1", "0001"), stick("1-1.2", "0001")
    machine.plug(held, equal)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    for _ in range(2):
        node.look()
        assert ids(node) == {held: [FIRST], equal: [SECOND]}
        assert free(node) == [equal]
        node.restart_daemon()


def test_a_held_disk_is_not_offered_at_another_port_of_its_controller(machine: Machine) -> None:
    held = SataDisk(1, "naa.5000c5001")
    held_partition = Partition(held, 1)
    machine.plug(held, held_partition)
    node = Node(machine, (DISKS,))
    node.look()
    give(node, held)
    give(node, held_partition)
    machine.unplug(held)
    held.port = 3
    machine.plug(held, held_partition)
    for _ in range(2):
        node.look()
        assert free(node) == []
        node.restart_daemon()


EDITS: dict[str, Callable[[Resource], tuple[Resource, ...]]] = {
    "another name": lambda its: (replace(its, name="example.com/renamed"),),
    "another id": lambda its: (replace(its, id=parse("$(usb.serial)")),),
    "an id of the kernel": lambda its: (replace(its, id=parse("$(device.name)")),),
    "the kubelet's other API": lambda its: (
        replace(its, served_by=next(other for other in ServedBy if other is not its.served_by)),
    ),
    "another resource first": lambda its: (replace(its, name="example.com/first"), its),
    "more shares": lambda its: (replace(its, replicas=3),),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("served_by", ServedBy, ids=str)
@pytest.mark.parametrize("happens", ["nothing", "restart", "reboot"])
def test_an_edit_gives_what_is_held_to_no_other(
    edit: Callable[[Resource], tuple[Resource, ...]],
    served_by: ServedBy,
    happens: str,
    machine: Machine,
) -> None:
    """Only what is free is offered under the new name."""
    held, other = stick("1-1.1", "A1"), stick("1-1.2", "A2")
    machine.plug(held, other)
    resource = replace(SERIAL, served_by=served_by)
    node = Node(machine, (resource,))
    node.look()
    give(node, held)
    node.resources = edit(resource)
    if happens == "reboot":
        machine.reboot([*reversed(machine.plugged)])
    if happens != "nothing":
        node.restart_daemon()
    for _ in range(2):
        node.look()
        assert held not in free(node)
        assert other in free(node)


@pytest.mark.parametrize("edit", ["another id", "an id of the kernel"])
def test_what_is_held_stays_healthy_under_its_id(edit: str, machine: Machine) -> None:
    """Its pod would be rejected at the next restart of the kubelet if it were Unhealthy."""
    held = stick("1-1.1", "A1")
    machine.plug(held)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    node.resources = EDITS[edit](SERIAL)
    for _ in range(2):
        node.look()
        assert ids(node) == {held: [FIRST]}
    node.holds.clear()
    node.look()
    assert ids(node) == {held: ["A1" if edit == "another id" else "ttyUSB0"]}


def test_what_a_config_excludes_is_withdrawn_at_once(machine: Machine) -> None:
    held = stick("1-1.1", "A1")
    machine.plug(held)
    node = Node(machine, (SERIAL,))
    node.look()
    give(node, held)
    node.resources = (replace(SERIAL, exclude=(selector("/dev/ttyUSB0"),)),)
    node.look()
    assert ids(node) == {}
    node.resources = (SERIAL,)
    node.look()
    assert ids(node) == {held: [FIRST]}
    assert free(node) == []


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 2)])
def test_a_held_share_is_not_shared_with_more_than_it_was_given_with(
    before: int, after: int, machine: Machine
) -> None:
    """Who has a device alone keeps it alone, and what others share is given to none alone."""
    held = stick("1-1.1", "A1")
    machine.plug(held)
    node = Node(machine, (replace(SERIAL, replicas=before),))
    node.look()
    give(node, held)
    node.resources = (replace(SERIAL, replicas=after),)
    node.look()
    assert not any(node.conflicts(name, listed) for name, listed in node.free())
    assert bool(free(node)) is (before > 1 and after > 1)
