from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.inventory import Inventory
from genericdp.devices.selectors import why_not
from genericdp.model import (
    NetSelector,
    PciSelector,
    Selector,
    SysSelector,
    UdevSelector,
    UsbSelector,
)
from tests.devices.known import PORT, Known, adapter_and_card
from tests.devices.making import resource

if TYPE_CHECKING:
    from genericdp.devices.inventory import SysDevice


@pytest.fixture
def known() -> Known:
    return adapter_and_card()


def failed(known: Known, path: str, selector: SysSelector) -> str | None:
    """The key of the first condition that does not hold for a device."""
    device = known.devices[f"/sys/devices/pci0000:00/{path}"]
    return failed_of(known, device, selector)


def failed_of(known: Known, device: SysDevice, selector: SysSelector) -> str | None:
    condition = why_not(Selector(candidates=selector), device, resource("x"), Inventory(known))
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
    """D11: libudev's own filter takes vendor *or* product."""
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
    """D12: a glob in one place, a regular expression in another."""
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
    found = [failed_of(known, device, one) is None for one in everywhere]
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


def test_which_devices_a_selector_looks_at(known: Known) -> None:
    seen = {
        type(selector).__name__: {
            one.name for one in known.devices.values() if failed_of(known, one, selector) is None
        }
        for selector in (UsbSelector(), PciSelector(), NetSelector())
    }
    assert seen == {
        "UsbSelector": {"usb1", "1-1", "1-1.4"},
        "PciSelector": {"0000:00:14.0", "0000:3b:00.0", "0000:3b:01.0"},
        "NetSelector": {"ens1"},
    }
    tty = UdevSelector(subsystem=("t*",))
    taken = [one.name for one in known.devices.values() if failed_of(known, one, tty) is None]
    assert taken == ["ttyUSB0"]


def test_conditions_are_asked_in_turn_until_one_fails(known: Known) -> None:
    """Attributes cost a read each, names and properties nothing."""
    wanted = UdevSelector(name=("ttyACM*",), attributes={"dev": ("*",)})
    assert failed(known, PORT, wanted) == "udev.name"
    assert known.asked == []
