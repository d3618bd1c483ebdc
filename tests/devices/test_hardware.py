from __future__ import annotations

import pytest

from genericdp.devices.hardware import (
    driver_of,
    function_of,
    is_pci_function,
    is_usb_device,
    nearest,
    numa_node_of,
    rank_name,
    source_device,
    text_of,
)
from tests.devices.known import ROOT, Known

MAC = "b4:96:91:a0:12:34"
ONLINE = "/sys/devices/system/node/online"


def serial_port(known: Known, port: str, name: str, *, interface: str = "1.0") -> str:
    """A serial adapter on a hub; gives the syspath of its port."""
    at = f"0000:00:14.0/usb1/1-1/{port}"
    known.usb(at)
    known.interface(f"{at}/{port}:{interface}")
    known.add(f"{at}/{port}:{interface}/{name}", "usb-serial", driver="ftdi_sio")
    return known.add(f"{at}/{port}:{interface}/{name}/tty/{name}", "tty", number=(188, 0)).syspath


def test_the_nearest_counts_not_the_first_from_above() -> None:
    known = Known()
    known.add("0000:00:14.0", "pci")
    known.usb("0000:00:14.0/usb1")
    known.usb("0000:00:14.0/usb1/1-1")
    port = known.devices[serial_port(known, "1-1.4", "ttyUSB0")]
    usb, pci = nearest(port, known, is_usb_device), nearest(port, known, is_pci_function)
    assert usb is not None
    assert usb.name == "1-1.4"
    assert nearest(usb, known, is_usb_device) is usb, "or what it is itself"
    assert pci is not None
    assert pci.name == "0000:00:14.0"
    assert nearest(pci, known, is_usb_device) is None


def test_the_driver_is_that_of_the_nearest_that_has_one() -> None:
    known = Known()
    port = known.devices[serial_port(known, "1-1.4", "ttyUSB0")]
    assert driver_of(port, known) == "ftdi_sio"
    alone = known.add("/sys/devices/virtual/misc/fuse", "misc")
    assert driver_of(alone, known) is None


@pytest.mark.parametrize(
    ("nodes", "online", "expected"),
    [
        pytest.param(("1", None), "0-1", 1, id="its-own"),
        pytest.param((None, "1"), "0-1", 1, id="that-of-what-it-sits-on"),
        pytest.param(("-1", "1"), "0-1", 1, id="minus-one-is-none: the next above"),
        pytest.param(("-1", "-1"), "0-1", None, id="minus-one-everywhere"),
        pytest.param((None, None), "0-1", None, id="nowhere"),
        pytest.param(("3", None), "0-1", None, id="offline"),
        pytest.param(("4", None), "0-1,4", 4, id="a-list-of-ranges"),
        pytest.param(("0", None), None, None, id="a-kernel-without-numa"),
        pytest.param(("0", None), "0", 0, id="one-node"),
        pytest.param(("2", None), "0-99999999999", 2, id="an-endless-range"),
        pytest.param(("x", "1"), "what,0-1,-", 1, id="nonsense"),
        pytest.param(("9" * 5000, "1"), f"0-1,{'9' * 5000}", 1, id="more-digits-than-python-reads"),
    ],
)
def test_the_numa_node_is_the_nearest_that_is_one_and_online(
    nodes: tuple[str | None, str | None], online: str | None, expected: int | None
) -> None:
    """D10: -1 is sent as if it were a node."""
    known = Known(texts={} if online is None else {ONLINE: f"{online}"})
    own, above = ({} if one is None else {"numa_node": one} for one in nodes)
    known.add("0000:01:00.0", "pci", attributes=above)
    disk = known.add("0000:01:00.0/nvme/nvme0", "nvme", attributes=own)
    assert numa_node_of(disk, known) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("port", "1-1.4"),
        ("vendor", "0403"),
        ("product", "6001"),
        ("serial", "A10K5UHJ"),
        ("class", "00"),
        ("bus", "1"),
        ("number", "6"),
        ("interface", "02"),
    ],
)
def test_names_of_a_usb_device(name: str, expected: str) -> None:
    known = Known()
    usb = known.usb(
        "0000:00:14.0/usb1/1-1.4",
        idVendor="0403",
        idProduct="6001",
        serial="A10K5UHJ",
        bDeviceClass="00",
        busnum="1",
        devnum="6",
    )
    known.interface("0000:00:14.0/usb1/1-1.4/1-1.4:1.2", "02")
    port = known.add("0000:00:14.0/usb1/1-1.4/1-1.4:1.2/tty/ttyACM0", "tty")
    assert text_of("usb", source_device("usb", usb, name, known, port), name, known) == expected


def test_a_device_without_a_serial_number_or_interface_lacks_it() -> None:
    known = Known()
    usb = known.usb("usb1/1-1")
    assert text_of("usb", usb, "serial", known) is None
    assert text_of("usb", usb, "interface", known) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("address", "0000:3b:01.0"),
        ("vendor", "8086"),
        ("device", "1889"),
        ("subsystemVendor", "8086"),
        ("subsystemDevice", "0000"),
        ("class", "020000"),
        ("driver", "vfio-pci"),
        ("function", "virtual"),
        ("iommuGroup", "12"),
    ],
)
def test_names_of_a_pci_function(name: str, expected: str) -> None:
    known = Known()
    function = known.add(
        "0000:3b:01.0",
        "pci",
        driver="vfio-pci",
        links={"physfn": "0000:3b:00.0", "iommu_group": "12"},
        attributes={
            "vendor": "0x8086",
            "device": "0x1889",
            "subsystem_vendor": "0x8086",
            "subsystem_device": "0x0000",
            "class": "0x020000",
        },
    )
    assert text_of("pci", function, name, known) == expected


def test_a_physical_function_without_driver_or_iommu() -> None:
    known = Known()
    function = known.add("0000:3b:00.0", "pci", links={"virtfn0": "0000:3b:01.0"})
    found = {
        name: text_of("pci", function, name, known) for name in ("driver", "function", "iommuGroup")
    }
    assert found == {"driver": None, "function": "physical", "iommuGroup": None}


@pytest.mark.parametrize(
    ("number", "expected"),
    [("1", "ether"), ("32", "infiniband"), ("280", "can"), ("772", "loopback"), ("9999", "9999")],
)
def test_link_types_have_names(number: str, expected: str) -> None:
    known = Known()
    known.add("0000:3b:00.0", "pci", driver="ice")
    net = known.add("0000:3b:00.0/net/eth0", "net", attributes={"type": number, "address": MAC})
    assert text_of("net", net, "linkType", known) == expected
    assert text_of("net", net, "name", known) == "eth0"
    assert text_of("net", net, "driver", known) == "ice", "an interface has none of its own"
    assert text_of("net", net, "address", known) == MAC


def test_ids_of_three_equal_dongles_differ() -> None:
    """D1: three equal dongles become one device."""
    known = Known()
    ports = [serial_port(known, f"1-1.{i}", f"ttyUSB{9 - i}") for i in (1, 2, 3)]
    names = [rank_name(known.devices[port], known) for port in ports]
    assert names == ["1-1.1:1.0-tty", "1-1.2:1.0-tty", "1-1.3:1.0-tty"]


def test_ports_of_one_adapter_have_an_interface_each() -> None:
    known = Known()
    ports = [serial_port(known, "1-1.4", f"ttyUSB{i}", interface=f"1.{i}") for i in (0, 1)]
    names = [rank_name(known.devices[port], known) for port in ports]
    assert names == ["1-1.4:1.0-tty", "1-1.4:1.1-tty"]


def test_the_second_at_a_place_has_a_rank_among_those_that_have_a_node_like_it() -> None:
    known = Known()
    known.add("0000:01:00.0", "pci")
    at = "0000:01:00.0/drm"
    devices = [
        known.add(f"{at}/card1", "drm", "drm_minor", number=(226, 1)),
        known.add(f"{at}/card1/card1-DP-1", "drm", "drm_connector"),
        known.add(f"{at}/card1/card1-DP-2", "drm", "drm_connector"),
        known.add(f"{at}/renderD128", "drm", "drm_minor", number=(226, 128)),
        known.add(f"{at}/renderD1000", "drm", "drm_minor", number=(226, 100)),
    ]
    names = [rank_name(one, known) for one in devices]
    place = "0000:01:00.0-drm"
    assert names == [place, place, f"{place}.1", f"{place}.1", f"{place}.2"]


def test_neighbours_at_another_place_do_not_shift_an_id() -> None:
    known = Known()
    known.add("0000:01:00.0", "pci")
    known.add("0000:01:00.00", "pci")
    known.add("0000:01:00.0/0000:02:00.0", "pci")
    known.add("0000:01:00.0/0000:02:00.0/drm/card0", "drm", number=(226, 0))
    known.add("0000:01:00.00/drm/card1", "drm", number=(226, 1))
    own = known.add("0000:01:00.0/drm/card7", "drm", number=(226, 7))
    assert rank_name(own, known) == "0000:01:00.0-drm"


def test_usb_devices_and_pci_functions_are_called_by_port_and_address() -> None:
    known = Known()
    pci, usb = known.add("0000:00:14.0", "pci"), known.usb("0000:00:14.0/usb1/1-1.4")
    assert rank_name(pci, known) == "0000:00:14.0"
    assert rank_name(usb, known) == "1-1.4"
    assert rank_name(known.interface(f"{ROOT}/0000:00:14.0/usb1/1-1.4/1-1.4:1.0"), known) == (
        "1-1.4-usb"
    )


def test_what_sits_on_a_platform_device_or_on_nothing() -> None:
    known = Known()
    known.add("/sys/devices/platform/fe201000.serial", "platform")
    port = known.add("/sys/devices/platform/fe201000.serial/tty/ttyAMA0", "tty", number=(204, 64))
    assert rank_name(port, known) == "fe201000.serial-tty"
    fuse = known.add("/sys/devices/virtual/misc/fuse", "misc", number=(10, 229))
    assert rank_name(fuse, known) is None


def test_what_a_device_is_part_of_is_its_usb_device_not_the_interface() -> None:
    known = Known()
    usb = known.usb("0000:00:14.0/usb1/1-8")
    known.interface("0000:00:14.0/usb1/1-8/1-8:1.0")
    video = known.add("0000:00:14.0/usb1/1-8/1-8:1.0/video4linux/video0", "video4linux")
    assert function_of(video, known) is usb
    assert function_of(usb, known) is usb
    loop = known.add("/sys/devices/virtual/block/loop0", "block")
    assert function_of(loop, known) is None
