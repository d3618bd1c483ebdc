"""For any machine and any other devices added or removed, the ID of a device is equal.

Each example draws up to three families of hardware that share places, and plugs in and removes
several of them in any order: in the running daemon, with a restart, and with a reboot that finds
everything in another order. So 40 examples are 160 reads machines of up to 30 parts.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.devices.machines import Hardware, Machine, full_rack
from tests.devices.offering import Offers, look, offers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.devices.decide import DeviceLists

pytestmark = pytest.mark.slow

RACK = full_rack()


@cache
def offered_alone(hardware: Hardware) -> Offers:
    """Return what a machine offers that has nothing else, but for what the hardware is on."""
    with tempfile.TemporaryDirectory() as directory:
        machine = Machine(Path(directory, "machine"))
        machine.plug(hardware)
        found = offers(look(machine), machine)
        return {key: ids for key, ids in found.items() if key[1].hardware is hardware}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The events on a machine."""

    first: Sequence[Hardware]
    comes: Sequence[Hardware]
    goes: Sequence[Hardware]
    order_of_boot: Sequence[Hardware]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    families = draw(st.lists(st.sampled_from(list(RACK)), min_size=1, max_size=3, unique=True))
    at_these = [hardware for family in families for hardware in RACK[family]]
    several = st.lists(st.sampled_from(at_these), min_size=1, max_size=8, unique=True)
    return Plan(
        first=draw(several),
        comes=draw(several),
        goes=draw(several),
        order_of_boot=draw(st.permutations(at_these)),
    )


def check_as_alone(lists: DeviceLists, machine: Machine) -> Offers:
    """Check that everything is offered as if it were alone, and return what is offered."""
    found = offers(lists, machine)
    expected = Offers()
    for hardware in {part.hardware for part in machine.parts.values()}:
        expected |= offered_alone(hardware)
    assert _stable(found) == {key: expected[key] for key in _stable(found)}
    missing = expected.keys() - found.keys()
    assert {part.hardware for _, part in missing} <= {*RACK["twins"]}
    return found


def _stable(found: Offers) -> Offers:
    return {key: ids for key, ids in found.items() if not key[1].hardware.is_weak}


def check_kept(before: Offers, after: Offers, machine: Machine) -> None:
    """Check that what is still there has the ID that it had, however weak that is."""
    parts = {*machine.parts.values()}
    there = {key: ids for key, ids in before.items() if key[1] in parts}
    assert {key: after.get(key) for key in there} == there


@settings(max_examples=examples(40), derandomize=True)
@given(plans())
def test_no_other_device_changes_the_id_of_a_device(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as directory:
        machine = Machine(Path(directory, "machine"))
        machine.plug(*plan.first)
        at_first = look(machine)
        before = check_as_alone(at_first, machine)
        machine.plug(*plan.comes)
        more = look(machine, previous=at_first)
        with_more = check_as_alone(more, machine)
        check_kept(before, with_more, machine)
        machine.unplug(*plan.goes)
        less = look(machine, previous=more)
        check_kept(with_more, check_as_alone(less, machine), machine)
        machine.reboot(entry for entry in plan.order_of_boot if entry in machine.plugged)
        check_as_alone(look(machine), machine)
