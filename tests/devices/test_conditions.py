from __future__ import annotations

from dataclasses import replace

import pytest

from genericdp.devices.conditions import (
    SysSelector,
    first_failure,
    hardware_failure,
    is_candidate_of,
    subsystem_globs,
)
from genericdp.model import Hardware, NetSelector, PciSelector, UdevSelector, UsbSelector
from tests.devices.known import Known

PORT = "0000:00:14.0/usb1/1-1/1-1.4/1-1.4:1.0/ttyUSB0/tty/ttyUSB0"
BELOW = PORT.rpartition("/tty/")[0]


@pytest.fixture
def known() -> Known:
    """An FTDI adapter on a hub, and a network card with a virtual function."""
    known = Known()
    hub = "0000:00:14.0/usb1/1-1"
    known.add("0000:00:14.0", "pci", driver="xhci_hcd", attributes={"vendor": "0x8086"})
    known.usb("0000:00:14.0/usb1", idVendor="1d6b", idProduct="0002")
    known.usb(hub, idVendor="05e3", idProduct="0608", bDeviceClass="09")
    known.usb(f"{hub}/1-1.4", idVendor="0403", idProduct="6001", serial="aBc", bDeviceClass="ef")
    known.interface(f"{hub}/1-1.4/1-1.4:1.0", "0a")
    known.add(f"{hub}/1-1.4/1-1.4:1.0/ttyUSB0", "usb-serial", driver="ftdi_sio")
    properties = {"ID_VENDOR_ID": "0403", "ID_MODEL_ID": "6001", "ID_BUS": "usb"}
    known.add(PORT, "tty", properties=properties, attributes={"dev": "188:0", "flags": "0x3"})
    links = {"physfn": "0000:3b:00.0", "iommu_group": "12"}
    ids = {"vendor": "0x8086", "device": "0x1889", "class": "0x0200AF"}
    known.add("0000:3b:01.0", "pci", driver="vfio-pci", links=links, attributes=ids)
    known.add("0000:3b:00.0", "pci", driver="ice", attributes=ids)
    known.add("0000:3b:00.0/net/ens1", "net", attributes={"type": "1", "address": "b4:96"})
    return known


def failed(known: Known, path: str, selector: SysSelector) -> str | None:
    """The key of the first condition that does not hold for a device."""
    device = known.devices[f"/sys/devices/pci0000:00/{path}"]
    condition = first_failure(selector, device, known, sitting=device)
    return None if condition is None else condition.key


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (UdevSelector(), None),
        (UdevSelector(subsystem=("tty",), name=("ttyUSB*", "ttyACM*")), None),
        (UdevSelector(subsystem=("tty",), name=("ttyACM*",)), "udev.name"),
        (UdevSelector(subsystem=("t?y", "usb")), None),
        (UdevSelector(devtype=("*",)), "udev.devtype"),
        (UdevSelector(driver=("ftdi_*",)), None),
        (UdevSelector(driver=("usb",)), "udev.driver"),
        (UdevSelector(properties={"ID_BUS": ("usb", "pci")}), None),
        (UdevSelector(properties={"ID_BUS": ("USB",)}), "udev.properties.ID_BUS"),
        (UdevSelector(properties={"ID_SERIAL": ("*",)}), "udev.properties.ID_SERIAL"),
        (UdevSelector(attributes={"dev": ("188:*",)}), None),
        (UdevSelector(attributes={"dev": ("166:*",)}), "udev.attributes.dev"),
        (UdevSelector(attributes={"none": ("*",)}), "udev.attributes.none"),
    ],
)
def test_conditions_of_udev(known: Known, selector: UdevSelector, expected: str | None) -> None:
    assert failed(known, PORT, selector) == expected


@pytest.mark.parametrize(
    ("vendor", "product", "expected"),
    [
        ("0403", "6001", None),
        ("0403", "6015", "udev.properties.ID_MODEL_ID"),
        ("10c4", "6001", "udev.properties.ID_VENDOR_ID"),
        ("10c4", "ea60", "udev.properties.ID_VENDOR_ID"),
    ],
)
def test_all_properties_must_hold(
    known: Known, vendor: str, product: str, expected: str | None
) -> None:
    """D11: libudev's own filter takes vendor *or* product.

    Brought back by ``return None if any(one.holds for one in asked) else ...`` in
    ``first_failure``.
    """
    wanted = {"ID_VENDOR_ID": (vendor,), "ID_MODEL_ID": (product,)}
    assert failed(known, PORT, UdevSelector(properties=wanted)) == expected


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("ttyUSB*", "ttyUSB0", True),
        ("ttyUSB", "ttyUSB0", False),
        ("tty", "ttyUSB0", False),
        ("USB0", "ttyUSB0", False),
        ("tty...0", "ttyUSB0", False),
        ("ttyUSB?", "ttyUSB10", False),
        ("ttyUSB[!1-9]", "ttyUSB0", True),
        ("ttyUSB[!0]", "ttyUSB0", False),
        ("ttyUSB0|x", "ttyUSB0", False),
        ("ttyUSB.*", "ttyUSB0", False),
    ],
)
def test_one_glob_dialect_everywhere(pattern: str, name: str, *, expected: bool) -> None:
    """D12: a glob in one place, a regular expression in another.

    Brought back by ``re.match(pattern, found)`` in ``Condition.holds``.
    """
    known = Known()
    device = known.add(
        f"usb1/{name}", "usb", "usb_device", driver=name, properties={"P": name},
        attributes={"serial": name, "idVendor": name},
    )  # fmt: skip
    globs = (pattern,)
    everywhere: list[SysSelector] = [
        UdevSelector(name=globs),
        UdevSelector(driver=globs),
        UdevSelector(properties={"P": globs}),
        UdevSelector(attributes={"serial": globs}),
        UsbSelector(serial=globs),
        UsbSelector(vendor=globs),
        UsbSelector(port=globs),
    ]
    found = [first_failure(one, device, known, sitting=device) is None for one in everywhere]
    assert found == [expected] * len(everywhere)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (UsbSelector(vendor=("0403",), product=("6001", "6015")), None),
        (UsbSelector(vendor=("0403",), product=("6015",)), "usb.product"),
        (UsbSelector(device_class=("EF",)), None),
        (UsbSelector(device_class=("E[A-F]",)), None),
        (UsbSelector(serial=("aBc",)), None),
        (UsbSelector(serial=("abc",)), "usb.serial"),
        (UsbSelector(port=("1-1.*",)), None),
        (UsbSelector(port=("1-1",)), "usb.port"),
    ],
)
def test_conditions_of_a_usb_device(
    known: Known, selector: UsbSelector, expected: str | None
) -> None:
    """Hexadecimal ids compare without case, other texts with it."""
    assert failed(known, "0000:00:14.0/usb1/1-1/1-1.4", selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (PciSelector(address=("0000:3B:*",), vendor=("8086",)), None),
        (PciSelector(device_class=("0200aF",)), None),
        (PciSelector(device_class=("0x0200af",)), "pci.class"),
        (PciSelector(function="virtual", iommu_group=("12",)), None),
        (PciSelector(function="physical"), "pci.function"),
        (PciSelector(driver=("VFIO-pci",)), "pci.driver"),
        (PciSelector(subsystem_vendor=("*",)), "pci.subsystemVendor"),
        (PciSelector(subsystem_device=("*",)), "pci.subsystemDevice"),
        (PciSelector(iommu_group=("13",)), "pci.iommuGroup"),
    ],
)
def test_conditions_of_a_pci_function(
    known: Known, selector: PciSelector, expected: str | None
) -> None:
    assert failed(known, "0000:3b:01.0", selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (NetSelector(name=("ens*",), link_type=("ether",), driver=("ice",)), None),
        (NetSelector(link_type=("can", "infiniband")), "net.linkType"),
        (NetSelector(link_type=("1",)), "net.linkType"),
        (NetSelector(address=("b4:*",)), None),
        (NetSelector(driver=("vfio-pci",)), "net.driver"),
    ],
)
def test_conditions_of_a_network_interface(
    known: Known, selector: NetSelector, expected: str | None
) -> None:
    assert failed(known, "0000:3b:00.0/net/ens1", selector) == expected


FTDI = UsbSelector(vendor=("0403",))
HUB = UsbSelector(vendor=("05e3",))


@pytest.mark.parametrize(
    ("path", "hardware", "expected"),
    [
        pytest.param(PORT, Hardware(), None, id="nothing-asked"),
        pytest.param(PORT, Hardware(usb=FTDI), None, id="the-nearest-usb-device"),
        pytest.param(PORT, Hardware(usb=HUB), "hardware.usb.vendor", id="not-one-further-down"),
        pytest.param(PORT, Hardware(usb=UsbSelector()), None, id="any-usb-device"),
        pytest.param("0000:00:14.0/usb1/1-1", Hardware(usb=HUB), None, id="what-it-is-itself"),
        pytest.param("0000:3b:00.0/net/ens1", Hardware(usb=FTDI), "hardware.usb", id="no-usb"),
        pytest.param(
            PORT, Hardware(usb=UsbSelector(interface=("0A",))), None, id="the-interface-between"
        ),
        pytest.param(
            PORT,
            Hardware(usb=UsbSelector(interface=("0b",))),
            "hardware.usb.interface",
            id="another-interface",
        ),
        pytest.param(
            "0000:00:14.0/usb1/1-1",
            Hardware(usb=UsbSelector(interface=("*",))),
            "hardware.usb.interface",
            id="no-interface-between",
        ),
        pytest.param(
            PORT, Hardware(pci=PciSelector(driver=("xhci_hcd",))), None, id="the-pci-function"
        ),
        pytest.param(
            PORT,
            Hardware(usb=FTDI, pci=PciSelector(driver=("ahci",))),
            "hardware.pci.driver",
            id="both-must-hold",
        ),
        pytest.param(
            PORT, Hardware(pci=PciSelector(driver=("x",))), "hardware.pci.driver", id="pci-alone"
        ),
        pytest.param(
            PORT,
            Hardware(udev=UdevSelector(attributes={"idVendor": ("05e3",)})),
            None,
            id="udev-looks-at-all-ancestors",
        ),
        pytest.param(
            PORT,
            Hardware(udev=UdevSelector(attributes={"idVendor": ("05e3",), "idProduct": ("6001",)})),
            "hardware.udev.attributes.idProduct",
            id="but-one-and-the-same-has-it-all",
        ),
        pytest.param(
            PORT,
            Hardware(udev=UdevSelector(subsystem=("tty",), name=("ttyUSB0",))),
            None,
            id="udev-may-be-itself",
        ),
        pytest.param(
            PORT,
            Hardware(udev=UdevSelector(subsystem=("scsi",))),
            "hardware.udev.subsystem",
            id="no-such-ancestor",
        ),
    ],
)
def test_what_a_device_is_or_sits_on(
    known: Known, path: str, hardware: Hardware, expected: str | None
) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{path}"]
    condition = hardware_failure(hardware, device, known)
    assert (condition and condition.key) == expected


def test_a_failed_condition_tells_what_was_found_and_where(known: Known) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{PORT}"]
    failure = hardware_failure(Hardware(usb=HUB), device, known)
    assert failure is not None
    assert (failure.wanted, failure.found) == (("05e3",), "0403")
    assert failure.where == "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4"


def test_what_sits_on_no_such_hardware_at_all_says_which(known: Known) -> None:
    bare = known.add("/sys/devices/virtual/misc/bare", "misc")
    failure = hardware_failure(Hardware(pci=PciSelector()), bare, known)
    assert failure is not None
    assert (failure.key, failure.wanted, failure.found, failure.where) == (
        "hardware.pci",
        ("*",),
        None,
        bare.syspath,
    )


def test_of_several_ancestors_the_one_that_came_furthest_tells_what_is_wrong(known: Known) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{PORT}"]
    wanted = UdevSelector(subsystem=("usb-serial",), driver=("ch341-uart",))
    failure = hardware_failure(Hardware(udev=wanted), device, known)
    assert failure is not None
    assert (failure.found, failure.where) == ("ftdi_sio", f"/sys/devices/pci0000:00/{BELOW}")


def test_of_ancestors_that_came_equally_far_the_nearest_tells_what_is_wrong(known: Known) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{PORT}"]
    failure = hardware_failure(Hardware(udev=UdevSelector(subsystem=("none",))), device, known)
    assert failure is not None
    assert (failure.found, failure.where) == ("tty", device.syspath)


def test_which_devices_a_selector_looks_at(known: Known) -> None:
    seen = {
        type(selector).__name__: {
            one.name for one in known.devices.values() if is_candidate_of(selector, one)
        }
        for selector in (UsbSelector(), PciSelector(), NetSelector())
    }
    assert seen == {
        "UsbSelector": {"usb1", "1-1", "1-1.4"},
        "PciSelector": {"0000:00:14.0", "0000:3b:00.0", "0000:3b:01.0"},
        "NetSelector": {"ens1"},
    }
    tty = UdevSelector(subsystem=("t*",))
    assert [one.name for one in known.devices.values() if is_candidate_of(tty, one)] == ["ttyUSB0"]
    assert subsystem_globs(tty) == ("t*",)
    others = UsbSelector(), PciSelector(), NetSelector()
    assert [subsystem_globs(one) for one in others] == [("usb",), ("pci",), ("net",)]
    assert subsystem_globs(replace(tty, subsystem=())) == (), "so all must be looked through"


def test_conditions_are_asked_in_turn_until_one_fails(known: Known) -> None:
    """Attributes cost a read each, names and properties nothing."""
    wanted = UdevSelector(name=("ttyACM*",), attributes={"dev": ("*",)})
    assert failed(known, PORT, wanted) == "udev.name"
    assert known.asked == []
