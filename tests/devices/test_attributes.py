"""What claims can select a device by, if its resource is served by DRA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from genericdp.devices.changes import shared_ids
from genericdp.model import Attribute, AttributeType, ServedBy, TopologyMode, ValueKind, ValueSource
from genericdp.template import parse
from tests.devices.known import PORT, ROOT, Known, adapter_and_card
from tests.devices.making import decide, node, resource

if TYPE_CHECKING:
    from genericdp.devices.attributes import AttributeValue

STRING, INT, BOOL, VERSION = AttributeType
MAX = 2**63 - 1


def attributes(
    known: Known | None = None, *syspaths: str | None, **keys: Any
) -> dict[str, AttributeValue]:
    """Return the attributes of the first device, of one of these files for each syspath."""
    files = [
        node(f"/dev/serial{i}", (188, i), syspath=syspath)
        for i, syspath in enumerate(syspaths or (None,))
    ]
    served = resource("serial", "/dev/serial*", **{"served_by": ServedBy.DRA, **keys})
    devices = decide([served], files, facts=known)["example.com/serial"].devices
    return dict(next(iter(devices.values())).device.attributes)


def read(kind: AttributeType, text: str) -> AttributeValue:
    """Return what becomes of a text."""
    values = {"text": ValueSource(kind=ValueKind.TEXT, source=parse(text))}
    wanted = {"mine": Attribute(type=kind, value=parse("$(value.text)"))}
    return attributes(values=values, attributes=wanted)["mine"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (STRING, "a text ", "a text "),
        (STRING, "é" * 32, "é" * 32),
        (INT, "17", 17),
        (INT, " 017 ", 17),
        (INT, "-5", -5),
        (INT, "+5", 5),
        (INT, "0x1F", 31),
        (INT, str(MAX), MAX),
        (INT, str(-MAX - 1), -MAX - 1),
        *((BOOL, one, True) for one in ("true", "True", " YES", "on", "Y", "1")),
        *((BOOL, one, False) for one in ("false", "No", "off", "n", "0")),
        (VERSION, "1.2.3", "1.2.3"),
        (VERSION, "v535.104", "535.104.0"),
        (VERSION, "7", "7.0.0"),
        (VERSION, "535.54.03", "535.54.3"),
        (VERSION, " 2.00", "2.0.0"),
        (VERSION, "6.1.0-18-amd64", "6.1.0-18-amd64"),
        (VERSION, "1.2-rc.1+b.007", "1.2.0-rc.1+b.007"),
        (VERSION, "0.0.9223372036854775807", "0.0.9223372036854775807"),
    ],
)
def test_a_text_is_read_as_the_type_says(kind: AttributeType, text: str, value: object) -> None:
    assert read(kind, text) == (kind, value, "")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *((INT, one, 0) for one in ("", "1.5", "1_000", "a", "٣", "0x", "--1")),
        *((INT, one, 0) for one in (str(MAX + 1), "0xffffffffffffffff", "9" * 5000)),
        *((BOOL, one, False) for one in ("", "2", "enabled", "-")),
        *((VERSION, one, "0.0.0") for one in ("", "a", "1.", "1.2.3.4", "1.2.3-", "1..2", "1.2_3")),
        *((VERSION, one, "0.0.0") for one in ("1.99999999999999999999", "1.0.0-" + "9" * 5000)),
        *((VERSION, one, "0.0.0") for one in ("1.0.0-01", f"1.2.3+{'b-' * 30}")),
        (VERSION, "0" * 60_000 + "x", "0.0.0"),
    ],
)
def test_a_text_that_is_nothing_of_the_kind_becomes_nothing_and_is_noted(
    kind: AttributeType, text: str, value: object
) -> None:
    found = read(kind, text)
    assert found[:2] == (kind, value)
    what = {INT: "no whole number of 64 bits", VERSION: "no version such as 1.2.3"}
    assert found.note.endswith(f"' is {what.get(kind, 'neither true nor false')}")
    assert len(found.note) < 250


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (STRING, "é" * 33, "é" * 32),
        (STRING, "a" + "é" * 32, "a" + "é" * 31),
    ],
)
def test_a_text_that_is_too_long_is_cut_and_that_is_noted(
    kind: AttributeType, text: str, value: str
) -> None:
    found = read(kind, text)
    assert found[:2] == (kind, value)
    size = len(text.encode())
    assert found.note == f"cut: it has {size} bytes, at most 64 are possible"


def test_a_device_that_lacks_a_value_is_on_offer_with_an_empty_one() -> None:
    template = parse("$(usb.speed)")
    wanted = {str(one): Attribute(type=one, value=template) for one in AttributeType}
    found = attributes(attributes=wanted)
    values = {"string": "", "int": 0, "bool": False, "version": "0.0.0"}
    assert {name: found[name].value for name in values} == values
    assert {found[name].note for name in values} == {"it has no '$(usb.speed)'"}


def test_an_attribute_may_use_the_id_and_text_of_several_scopes() -> None:
    template = parse("$(node.name) $(device.id)")
    wanted = {"mine": Attribute(type=STRING, value=template)}
    assert attributes(attributes=wanted)["mine"].value == "node-1 serial0"


def test_every_device_has_attributes_of_what_it_is_and_where() -> None:
    known = adapter_and_card()
    known.texts |= {
        f"{ROOT}/0000:00:14.0/device": "0xa36d",
        f"{ROOT}/0000:00:14.0/numa_node": "1",
        "/sys/devices/system/node/online": "0-1",
    }
    assert attributes(known, f"{ROOT}/{PORT}") == {
        "driver": (STRING, "ftdi_sio", ""),
        "usbVendor": (STRING, "0403", ""),
        "usbProduct": (STRING, "6001", ""),
        "usbSerial": (STRING, "aBc", ""),
        "pciVendor": (STRING, "8086", ""),
        "pciDevice": (STRING, "a36d", ""),
        "resource.kubernetes.io/pcieRoot": (STRING, "pci0000:00", ""),
        "resource.kubernetes.io/pciBusID": (STRING, "0000:00:14.0", ""),
        "resource.kubernetes.io/numaNode": (INT, 1, ""),
    }
    nowhere = attributes(known, f"{ROOT}/{PORT}", topology=TopologyMode.NONE)
    assert "resource.kubernetes.io/numaNode" not in nowhere


def test_what_is_not_known_is_empty_but_for_what_devices_are_compared_by() -> None:
    names = ("driver", "usbVendor", "usbProduct", "usbSerial", "pciVendor", "pciDevice")
    assert attributes() == dict.fromkeys(names, (STRING, "", ""))


def test_what_stands_on_two_functions_has_the_root_that_they_share() -> None:
    known = Known()
    for name in ("0000:01:00.0", "0000:01:00.1"):
        known.add(name, "pci", driver="vfio-pci")
        known.targets[f"/sys/kernel/iommu_groups/7/devices/{name}"] = f"{ROOT}/{name}"
    group = known.add("/sys/devices/virtual/vfio/7", "vfio")
    standard = {
        name: one.value for name, one in attributes(known, group.syspath).items() if "/" in name
    }
    assert standard == {"resource.kubernetes.io/pcieRoot": "pci0000:00"}


def test_a_group_has_the_attributes_of_its_first_member() -> None:
    known = adapter_and_card()
    wanted = {"name": Attribute(type=STRING, value=parse("$(device.name)"))}
    card = f"{ROOT}/0000:3b:00.0/net/ens1"
    found = attributes(
        known, card, f"{ROOT}/{PORT}", group_by=parse("$(node.name)"), attributes=wanted
    )
    assert [found[name].value for name in ("name", "driver", "usbVendor")] == ["ens1", "ice", ""]


def test_a_device_of_the_device_plugin_has_none() -> None:
    assert attributes(adapter_and_card(), f"{ROOT}/{PORT}", served_by=ServedBy.DEVICE_PLUGIN) == {}


@pytest.mark.parametrize(
    ("served_by", "ids", "spoiler"),
    [(ServedBy.DEVICE_PLUGIN, {"1"}, "2"), (ServedBy.DRA, set(), "")],
)
def test_no_kubelet_mixes_up_what_it_is_not_told_of(
    served_by: ServedBy, ids: set[str], spoiler: str
) -> None:
    known = adapter_and_card()
    known.texts |= {
        f"{ROOT}/0000:3b:00.0/numa_node": "0",
        "/sys/devices/system/node/online": "0-1",
    }
    files = [
        node("/dev/a", (1, 1), syspath=f"{ROOT}/0000:3b:00.0/net/ens1"),
        node("/dev/b", (1, 2)),
        node("/dev/c", (1, 3)),
    ]
    names: dict[str, Any] = {"id": "$(value.id)", "served_by": served_by}
    text = ValueSource(kind=ValueKind.TEXT, source=parse("$(device.minor)"), regex="[12]")
    first = resource("first", "/dev/[ab]", values={"id": text}, **names)
    text = ValueSource(kind=ValueKind.TEXT, source=parse("1"))
    second = resource("second", "/dev/c", values={"id": text}, **names)
    offers = decide([first, second], files, facts=known)
    assert shared_ids(offers) == ids
    assert offers["example.com/first"].numa_spoiler == spoiler
