"""Selectors: the files that they read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from genericdp.devices.inventory import Inventory
from genericdp.devices.matching import reads_properties
from genericdp.devices.selectors import why_not
from genericdp.model import Command, Hook, Resource, Selector, ValueKind, ValueSource
from genericdp.template import parse

from tests.devices.known import Known
from tests.devices.making import inject, resource, selector
from tests.selecting import hardware, udev_selector, usb_selector


def test_conditions_are_asked_in_turn_until_one_fails() -> None:
    """Attributes cost a read each, names and properties nothing."""
    known = Known()
    tty = known.add("ttyUSB0", "tty", attributes={"dev": "188:0"})
    wanted = Selector(candidates=udev_selector(name=("ttyACM*",), attributes={"dev": ("*",)}))
    condition = why_not(wanted, tty, resource("x"), Inventory(known))
    assert condition is not None
    assert condition.key == "udev.name"
    assert known.asked == []


RECORDED = udev_selector(properties={"ID_BUS": ("usb",)})
ID_BUS = "$(property.ID_BUS)"
PROPERTY = parse("a$(device.name)$(property.ID_BUS)")
ASKED = Hook(command=Command(argv=(parse("/bin/true"), PROPERTY)))


@pytest.mark.parametrize(
    ("wanted", "reads"),
    [
        (resource("x", "/dev/a"), False),
        (resource("x", Selector(candidates=udev_selector(attributes={"dev": ("*",)}))), False),
        (resource("x", Selector(candidates=usb_selector(vendor=("1",)))), False),
        (resource("x", "/dev/a", given=inject(env={"A": "$(attribute.dev)"})), False),
        (resource("x", "/dev/a", Selector(candidates=RECORDED)), True),
        (
            resource("x", Selector(candidates=usb_selector(), hardware=hardware(udev=RECORDED))),
            True,
        ),
        (replace(resource("x", "/dev/a"), exclude=(Selector(candidates=RECORDED),)), True),
        (resource("x", "/dev/a", id=ID_BUS), True),
        (resource("x", "/dev/a", given=inject(env={"A": "1", "B": "$(property.A)"})), True),
        (resource("x", "/dev/a", given=inject(mounts=[("/a", "/b/$(property.A)")])), True),
        (resource("x", "/dev/a", hooks={"preStart": ASKED}), True),
        (resource("x", replace(selector("/dev/a"), inject=inject(env={"A": "a"}))), False),
        (resource("x", replace(selector("/dev/a"), inject=inject(env={"A": ID_BUS}))), True),
        (resource("x", "/dev/a", names=("a",), name_template=PROPERTY), True),
        (
            resource(
                "x",
                "/dev/a",
                values={"v": ValueSource(kind=ValueKind.TEXT, source=PROPERTY)},
            ),
            True,
        ),
    ],
)
def test_a_resource_that_reads_what_udev_records_is_known_wherever_it_says_so(
    wanted: Resource, reads: bool
) -> None:
    assert reads_properties(wanted) is reads
