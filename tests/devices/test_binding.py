"""Templates that are filled in for one device: probes, hooks, and attributes for DRA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.health.kinds.open import OpenCheck
from genericdp.model import (
    Attribute,
    AttributeType,
    Command,
    Hook,
    Probe,
    Selector,
    ServedBy,
    ValueKind,
    ValueSource,
)
from genericdp.template import parse

from tests.devices.known import Known
from tests.devices.making import decide, node, resource
from tests.selecting import udev_selector

if TYPE_CHECKING:
    from genericdp.devices.device import Device
    from genericdp.template import Template


XID = r"Xid \((?P<address>[^)]+)\): (?P<code>\d+)"
DISK = "/sys/devices/virtual/block/zram0"


def command(*argv: str, **env: str) -> Command[Template]:
    return Command(
        argv=tuple(map(parse, argv)), env={name: parse(text) for name, text in env.items()}
    )


def offered(properties: dict[str, str], **keys: object) -> Device:
    """Return the only device of a resource."""
    known = Known()
    known.add(DISK, "block", "disk", number=(252, 0), properties=properties)
    file = node("/dev/zram0", (252, 0), syspath=DISK, block=True)
    match = Selector(candidates=udev_selector(subsystem=("block",)))
    lists = decide([resource("disk", match, **keys)], [file], facts=known)  # type: ignore[arg-type]
    (entry,) = lists["example.com/disk"].devices.values()
    return entry.device


def test_a_probe_has_its_templates_expanded_once_and_stays_in_its_place() -> None:
    """No shell and no second pass sees a string: it is one argument, as it is."""
    asked = (
        OpenCheck(mode="w"),
        ExecCheck(
            command=command("/c", "$(device.path)", "$$(id)=$(device.id)", A="$(usb.serial:-q)")
        ),
        ExecCheck(command=command("/c", "$(property.LABEL)")),
        KernelLogCheck(
            regex=XID, where={"address": parse("$(device.id)")}, ignore={"code": ("13",)}
        ),
        OpenCheck(mode="r"),
    )
    probes = tuple(Probe(check=check, period_seconds=3) for check in asked)
    device = offered({"LABEL": "a *(b)$(x)", "USEC_INITIALIZED": "8411207"}, health=probes)
    assert device.known_since == 8.411207, "older lines of the kernel's log are not about it"
    bound = device.probes
    assert [bound_probe.probe for bound_probe in bound] == [*probes]
    assert [bound_probe.check for bound_probe in bound] == [
        asked[0],
        ExecCheck(command=Command(argv=("/c", "/dev/zram0", "$(id)=zram0"), env={"A": "q"})),
        ExecCheck(command=Command(argv=("/c", "a *(b)$(x)"))),
        KernelLogCheck(regex=XID, where={"address": "zram0"}, ignore={"code": ("13",)}),
        asked[4],
    ]


def test_each_hook_has_its_templates_expanded_and_its_own_time() -> None:
    asked = {
        "allocate": Hook(command=command("/bin/init", "$(device.id)"), timeout_seconds=4),
        "preStart": Hook(command=command("/bin/reset", AT="$(device.path)"), timeout_seconds=20),
    }
    hooks = offered({}, hooks=asked).hooks
    assert {name: hook.command.expand(lambda *_: None) for name, hook in hooks.items()} == {
        "allocate": Command(argv=("/bin/init", "zram0")),
        "preStart": Command(argv=("/bin/reset",), env={"AT": "/dev/zram0"}),
    }
    assert [hook.timeout_seconds for hook in hooks.values()] == [4, 20]


STRING, INT, BOOL, VERSION = AttributeType
MAX = 2**63 - 1
NO_INT, NO_BOOL = "' is not a whole number of 64 bits", "' is neither true nor false"
NO_VERSION = "' is not a version such as 1.2.3"
CUT = "cut: it has {} bytes, at most 64 are possible"


@pytest.mark.parametrize(
    ("kind", "text", "value", "note"),
    [
        (STRING, "two words ", "two words ", ""),
        (STRING, "é" * 32, "é" * 32, ""),
        (STRING, "é" * 33, "é" * 32, CUT.format(66)),
        (STRING, "a" + "é" * 32, "a" + "é" * 31, CUT.format(65)),
        *((INT, text, 17, "") for text in ("17", " 017 ", "+17", "0x11")),
        *((INT, str(number), number, "") for number in (-5, MAX, -MAX - 1)),
        *((INT, text, 0, NO_INT) for text in ("", "1.5", "1_000", "a", "٣", "0x", "--1")),
        *((INT, text, 0, NO_INT) for text in (str(MAX + 1), "0xffffffffffffffff", "9" * 5000)),
        *((BOOL, text, True, "") for text in ("true", "True", " YES", "on", "Y", "1")),
        *((BOOL, text, False, "") for text in ("false", "No", "off", "n", "0")),
        *((BOOL, text, False, NO_BOOL) for text in ("", "2", "enabled", "-")),
        (VERSION, "1.2.3", "1.2.3", ""),
        (VERSION, "v535.104", "535.104.0", ""),
        (VERSION, "7", "7.0.0", ""),
        (VERSION, "535.54.03", "535.54.3", ""),
        (VERSION, " 2.00", "2.0.0", ""),
        (VERSION, "6.1.0-18-amd64", "6.1.0-18-amd64", ""),
        (VERSION, "1.2-rc.1+b.007", "1.2.0-rc.1+b.007", ""),
        (VERSION, "0.0.9223372036854775807", "0.0.9223372036854775807", ""),
        *((VERSION, text, "0.0.0", NO_VERSION) for text in ("", "a", "1.", "1.2.3.4", "1.2.3-")),
        *((VERSION, text, "0.0.0", NO_VERSION) for text in ("1..2", "1.2_3", "1.0.0-01")),
        *(
            (VERSION, text, "0.0.0", NO_VERSION)
            for text in (f"1.{'9' * 20}", f"1.0.0-{'9' * 5000}")
        ),
        *(
            (VERSION, text, "0.0.0", NO_VERSION)
            for text in (f"1.2.3+{'b-' * 30}", f"{'0' * 60_000}x")
        ),
    ],
)
def test_a_text_is_read_as_the_type_says_and_what_is_nothing_of_the_kind_is_noted(
    kind: AttributeType, text: str, value: object, note: str
) -> None:
    served = resource(
        "serial",
        "/dev/serial",
        served_by=ServedBy.DRA,
        values={"text": ValueSource(kind=ValueKind.TEXT, source=parse(text))},
        attributes={"mine": Attribute(type=kind, value=parse("$(value.text)"))},
    )
    listed = decide([served], [node("/dev/serial", (188, 0))])["example.com/serial"]
    found = listed.devices["serial"].device.attributes["mine"]
    assert found[:2] == (kind, value)
    assert found.note.endswith(note) if note else found.note == ""
    assert len(found.note) < 250


@pytest.mark.parametrize(
    ("kind", "value"), [(STRING, ""), (INT, 0), (BOOL, False), (VERSION, "0.0.0")]
)
def test_a_device_that_lacks_a_value_is_on_offer_with_an_empty_one(
    kind: AttributeType, value: object
) -> None:
    wanted = {"mine": Attribute(type=kind, value=parse("$(usb.serial)"))}
    served = resource("serial", "/dev/serial", served_by=ServedBy.DRA, attributes=wanted)
    listed = decide([served], [node("/dev/serial", (188, 0))])["example.com/serial"]
    found = listed.devices["serial"].device.attributes["mine"]
    assert found == (kind, value, "it has no '$(usb.serial)'")
