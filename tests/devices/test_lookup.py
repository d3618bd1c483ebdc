from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.inventory import Candidate, FoundFile, Identity, Inventory, Look
from genericdp.devices.lookup import Names
from genericdp.model import ValueKind, ValueSource
from genericdp.template import UnusableValueError, expand, parse
from tests.devices.known import ROOT, Known
from tests.devices.making import node, plain, resource

if TYPE_CHECKING:
    from collections.abc import Mapping

AT = "0000:00:14.0/usb1/1-1.4"
PORT = f"{AT}/1-1.4:1.0/ttyUSB0/tty/ttyUSB0"


@pytest.fixture
def known() -> Known:
    known = Known(texts={"/sys/devices/system/node/online": "0-1"})
    ids = {"vendor": "0x8086", "numa_node": "1"}
    known.add("0000:00:14.0", "pci", driver="xhci_hcd", attributes=ids)
    known.usb(AT, idVendor="0403", idProduct="6001")
    known.interface(f"{AT}/1-1.4:1.0", "02")
    known.add(f"{AT}/1-1.4:1.0/ttyUSB0", "usb-serial", driver="ftdi_sio")
    known.add(PORT, "tty", number=(188, 7), properties={"ID_BUS": "usb"}, attributes={"a/b": "x"})
    known.add("0000:3b:00.0", "pci")
    known.add("0000:3b:00.0/net/ens1", "net", attributes={"type": "1"})
    return known


def names_of(
    known: Known,
    path: str,
    *files: FoundFile,
    values: Mapping[str, ValueSource] | None = None,
) -> Names:
    def look(pattern: str) -> Look:
        return Look(files=tuple(file for file in files if file.path == pattern))

    known.look = look
    inventory = Inventory(known, "node-1")
    candidate = inventory.of_device(known.devices[f"{ROOT}/{path}"])
    assert candidate is not None
    wanted = replace(resource("x"), values=values or {})
    return Names(candidate, resource=wanted, inventory=inventory)


def port_of(known: Known, values: Mapping[str, ValueSource] | None = None) -> Names:
    file = node("/dev/ttyUSB0", (188, 7), syspath=f"{ROOT}/{PORT}")
    return names_of(known, PORT, file, values=values)


def card_of(known: Known) -> Names:
    path = "0000:3b:00.0/net/ens1"
    folder = plain(f"{ROOT}/{path}", folder=True)
    identity = Identity(inode=1, syspath=f"{ROOT}/{path}")
    return names_of(known, path, replace(folder, identity=identity))


@pytest.mark.parametrize(
    ("scope", "name", "expected"),
    [
        ("device", "path", "/dev/ttyUSB0"),
        ("device", "name", "ttyUSB0"),
        ("device", "syspath", f"{ROOT}/{PORT}"),
        ("device", "subsystem", "tty"),
        ("device", "devtype", None),
        ("device", "driver", "ftdi_sio"),
        ("device", "major", "188"),
        ("device", "minor", "7"),
        ("device", "numa", "1"),
        ("device", "id", None),
        ("device", "nonsense", None),
        ("property", "ID_BUS", "usb"),
        ("property", "ID_SERIAL", None),
        ("attribute", "a/b", "x"),
        ("attribute", "c", None),
        ("usb", "vendor", "0403"),
        ("usb", "port", "1-1.4"),
        ("usb", "interface", "02"),
        ("usb", "serial", None),
        ("pci", "address", "0000:00:14.0"),
        ("pci", "vendor", "8086"),
        ("net", "name", None),
        ("node", "name", "node-1"),
        ("value", "none", None),
    ],
)
def test_what_templates_can_name(known: Known, scope: str, name: str, expected: str | None) -> None:
    assert port_of(known).get_text(scope, name) == expected


def test_several_numa_nodes_are_one_text(known: Known) -> None:
    volume = known.add("/sys/devices/virtual/block/dm-0", "block")
    for i in range(2):
        disk = known.add(f"0000:0{i}:00.0/nvme{i}", "block", attributes={"numa_node": str(i)})
        known.targets[f"{volume.syspath}/slaves/{disk.name}"] = disk.syspath
    inventory = Inventory(known, "node-1")
    found = Candidate(file=node("/dev/dm-0", (253, 0)), device=volume)
    names = Names(found, resource=resource("x"), inventory=inventory)
    assert names.get_text("device", "numa") == "0,1"


def test_the_id_is_known_once_it_has_been_made(known: Known) -> None:
    names = port_of(known)
    names.device_id = "1-1.4:1.0-tty"
    assert names.get_text("device", "id") == "1-1.4:1.0-tty"


@pytest.mark.parametrize(
    ("scope", "name", "expected"),
    [
        ("device", "path", None),
        ("device", "syspath", f"{ROOT}/0000:3b:00.0/net/ens1"),
        ("device", "name", "ens1"),
        ("device", "major", None),
        ("net", "linkType", "ether"),
        ("pci", "address", "0000:3b:00.0"),
        ("usb", "vendor", None),
    ],
)
def test_what_has_no_device_file_has_no_path(
    known: Known, scope: str, name: str, expected: str | None
) -> None:
    assert card_of(known).get_text(scope, name) == expected


def test_a_file_that_sysfs_does_not_know_has_a_path_and_a_name() -> None:
    file = node("/dev/mine/thing", (241, 3), target="/dev/thing")
    inventory = Inventory(Known())
    names = Names(
        Candidate(file=file),
        resource=resource("x"),
        inventory=inventory,
    )
    asked = ("path", "name", "major", "minor", "syspath", "subsystem", "numa")
    assert [names.get_text("device", name) for name in asked] == [
        *("/dev/mine/thing", "thing", "241", "3", None, None, None)
    ]
    assert names.get_text("property", "ID_BUS") is None
    assert names.get_text("usb", "vendor") is None


def text(source: str, regex: str | None = None) -> ValueSource:
    return ValueSource(kind=ValueKind.TEXT, source=parse(source), regex=regex)


def test_values_may_use_each_other_and_are_computed_once(known: Known) -> None:
    values = {
        "slot": text("$(value.address)", r"(.*)\.\d"),
        "address": ValueSource(kind=ValueKind.FILE, source=parse("/map/$(device.name)")),
    }
    known.texts["/map/ttyUSB0"] = "0000:00:14.0"
    names = port_of(known, values)
    assert names.get_text("value", "slot") == "0000:00:14"
    assert names.get_text("value", "slot") == names.get_text("value", "slot")
    assert known.asked.count("/map/ttyUSB0") == 1


LACKING = {
    "file": ValueSource(kind=ValueKind.FILE, source=parse("/proc/none")),
    "regex": ValueSource(kind=ValueKind.TEXT, source=parse("$(usb.vendor)"), regex="x(.)"),
    "link": ValueSource(kind=ValueKind.LINK, source=parse("/sys/none/*")),
    "name": ValueSource(kind=ValueKind.TEXT, source=parse("$(usb.serial)")),
    "other": ValueSource(kind=ValueKind.TEXT, source=parse("a$(value.file)")),
    "unreadable": ValueSource(kind=ValueKind.FILE, source=parse("/proc/secret")),
}


@pytest.mark.parametrize("name", ["file", "regex", "link", "name", "other"])
def test_a_value_that_is_lacking_for_whatever_reason_gives_its_default(
    known: Known, name: str
) -> None:
    names = port_of(known, LACKING)
    assert expand(parse(f"$(value.{name}:-none)"), names.get_text) == "none"
    with pytest.raises(UnusableValueError):
        expand(parse(f"$(value.{name})"), names.get_text)


def test_a_value_that_may_be_there_but_cannot_be_read_has_no_default(known: Known) -> None:
    known.unreadable["/proc/secret"] = "Permission denied"
    names = port_of(known, LACKING)
    with pytest.raises(UnusableValueError, match=r"/proc/secret: Permission denied"):
        expand(parse("$(value.unreadable:-none)"), names.get_text)
