"""The default IDs: they name hardware by its own facts, whatever else there is.

Each example draws up to three families of hardware that share places, and plugs in and removes
several of them in any order: in the running daemon, with a restart, and with a reboot that finds
everything in another order. So 40 examples are 160 decisions about machines of up to 30 parts.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.devices.offering import WITH_NODES, WITHOUT_NODES, Offers, look, offers
from tests.devices.rack import FAMILIES, Machine, Rack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.devices.decide import DeviceLists

RACKS = {family: Rack(tree) for family, tree in FAMILIES.items()}
RACK = Rack(*FAMILIES.values())
WEAK = {place.hardware for place in RACK.places.values() if place.inherited("weak")}
TWINS = {*RACKS["twins"].hardware}
"""Nothing distinguishes them, so that one of them is offered."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Changes of a machine."""

    first: Sequence[str]
    comes: Sequence[str]
    goes: Sequence[str]
    order_of_boot: Sequence[str]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    families = draw(st.lists(st.sampled_from(list(RACKS)), min_size=1, max_size=3, unique=True))
    at_these = [hardware for family in families for hardware in RACKS[family].hardware]
    several = st.lists(st.sampled_from(at_these), min_size=1, max_size=8, unique=True)
    return Plan(
        first=draw(several),
        comes=draw(several),
        goes=draw(several),
        order_of_boot=draw(st.permutations(at_these)),
    )


def expected_of(machine: Machine) -> Offers:
    """Return what is to be offered, each under its own default ID."""
    return {
        (f"example.com/{entry.subsystem.replace('_', '-')}", place.part): [place.default_id]
        for place, entry in machine.shown.values()
        if place.hardware
        and (
            (entry.subsystem in {*WITH_NODES, "usb"} and entry.node)
            or entry.subsystem in WITHOUT_NODES
        )
    }


def check_ids(lists: DeviceLists, machine: Machine) -> Offers:
    """Check that everything is offered under its default ID, and return what is offered."""
    found, expected = offers(lists, machine), expected_of(machine)
    missing = {part.hardware for _, part in expected.keys() - found.keys()}
    assert missing <= TWINS
    stable = {key for key in found if key[1].hardware not in WEAK}
    assert {key: found[key] for key in stable} == {key: expected[key] for key in stable}
    return found


def check_kept(before: Offers, after: Offers, machine: Machine) -> None:
    """Check that what is still there has the ID that it had, however weak that is."""
    parts = {*machine.parts.values()}
    there = {key: ids for key, ids in before.items() if key[1] in parts}
    assert {key: after.get(key) for key in there} == there


def test_an_id_is_the_place_the_subsystem_and_what_distinguishes_hardware_there(
    tmp_path: Path,
) -> None:
    machine = Machine(RACK, tmp_path / "machine")
    machine.plug(*RACK.hardware)
    check_ids(look(machine), machine)


@pytest.mark.slow
@settings(max_examples=examples(40), derandomize=True)
@given(plans())
def test_no_other_device_changes_the_id_of_a_device(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as directory:
        machine = Machine(RACK, Path(directory, "machine"))
        machine.plug(*plan.first)
        at_first = look(machine)
        before = check_ids(at_first, machine)
        machine.plug(*plan.comes)
        more = look(machine, previous=at_first)
        with_more = check_ids(more, machine)
        check_kept(before, with_more, machine)
        machine.unplug(*plan.goes)
        less = look(machine, previous=more)
        check_kept(with_more, check_ids(less, machine), machine)
        machine.reboot(hardware for hardware in plan.order_of_boot if hardware in machine.plugged)
        check_ids(look(machine), machine)
