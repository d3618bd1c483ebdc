from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.inventory import Inventory
from genericdp.devices.selectors import why_not
from genericdp.model import Selector, SysSelector
from tests.devices.known import PORT, Known, adapter_and_card
from tests.devices.making import resource
from tests.selecting import net_selector, pci_selector, udev_selector, usb_selector

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
        (udev_selector(), None),
        (udev_selector(subsystem=("tty",), name=("ttyUSB*", "ttyACM*")), None),
        (udev_selector(subsystem=("tty",), name=("ttyACM*",)), "udev.name"),
        (udev_selector(subsystem=("t?y", "usb")), None),
        (udev_selector(devtype=("*",)), "udev.devtype"),
        (udev_selector(driver=("ftdi_*",)), None),
        (udev_selector(driver=("usb",)), "udev.driver"),
        (udev_selector(properties={"ID_BUS": ("usb", "pci")}), None),
        (udev_selector(properties={"ID_BUS": ("USB",)}), "udev.properties.ID_BUS"),
        (udev_selector(properties={"ID_SERIAL": ("*",)}), "udev.properties.ID_SERIAL"),
        (udev_selector(attributes={"dev": ("188:*",)}), None),
        (udev_selector(attributes={"dev": ("166:*",)}), "udev.attributes.dev"),
        (udev_selector(attributes={"none": ("*",)}), "udev.attributes.none"),
    ],
)
def test_conditions_of_udev(known: Known, selector: SysSelector, expected: str | None) -> None:
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
    assert failed(known, PORT, udev_selector(properties=wanted)) == expected


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
        udev_selector(name=globs),
        udev_selector(driver=globs),
        udev_selector(properties={"P": globs}),
        udev_selector(attributes={"serial": globs}),
        usb_selector(serial=globs),
        usb_selector(vendor=globs),
        usb_selector(port=globs),
    ]
    found = [failed_of(known, device, one) is None for one in everywhere]
    assert found == [expected] * len(everywhere)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (usb_selector(vendor=("0403",), product=("6001", "6015")), None),
        (usb_selector(vendor=("0403",), product=("6015",)), "usb.product"),
        (usb_selector(class_=("EF",)), None),
        (usb_selector(class_=("E[A-F]",)), None),
        (usb_selector(serial=("aBc",)), None),
        (usb_selector(serial=("abc",)), "usb.serial"),
        (usb_selector(port=("1-1.*",)), None),
        (usb_selector(port=("1-1",)), "usb.port"),
    ],
)
def test_conditions_of_a_usb_device(
    known: Known, selector: SysSelector, expected: str | None
) -> None:
    """Hexadecimal ids compare without case, other texts with it."""
    assert failed(known, "0000:00:14.0/usb1/1-1/1-1.4", selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (pci_selector(address=("0000:3B:*",), vendor=("8086",)), None),
        (pci_selector(class_=("0200aF",)), None),
        (pci_selector(class_=("0x0200af",)), "pci.class"),
        (pci_selector(function=("virtual",), iommuGroup=("12",)), None),
        (pci_selector(function=("physical",)), "pci.function"),
        (pci_selector(driver=("VFIO-pci",)), "pci.driver"),
        (pci_selector(subsystemVendor=("*",)), "pci.subsystemVendor"),
        (pci_selector(subsystemDevice=("*",)), "pci.subsystemDevice"),
        (pci_selector(iommuGroup=("13",)), "pci.iommuGroup"),
    ],
)
def test_conditions_of_a_pci_function(
    known: Known, selector: SysSelector, expected: str | None
) -> None:
    assert failed(known, "0000:3b:01.0", selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (net_selector(name=("ens*",), linkType=("ether",), driver=("ice",)), None),
        (net_selector(linkType=("can", "infiniband")), "net.linkType"),
        (net_selector(linkType=("1",)), "net.linkType"),
        (net_selector(address=("b4:*",)), None),
        (net_selector(driver=("vfio-pci",)), "net.driver"),
    ],
)
def test_conditions_of_a_network_interface(
    known: Known, selector: SysSelector, expected: str | None
) -> None:
    assert failed(known, "0000:3b:00.0/net/ens1", selector) == expected


def test_which_devices_a_selector_looks_at(known: Known) -> None:
    seen = {
        selector.kind: {
            one.name for one in known.devices.values() if failed_of(known, one, selector) is None
        }
        for selector in (usb_selector(), pci_selector(), net_selector())
    }
    assert seen == {
        "usb": {"usb1", "1-1", "1-1.4"},
        "pci": {"0000:00:14.0", "0000:3b:00.0", "0000:3b:01.0"},
        "net": {"ens1"},
    }
    tty = udev_selector(subsystem=("t*",))
    taken = [one.name for one in known.devices.values() if failed_of(known, one, tty) is None]
    assert taken == ["ttyUSB0"]


def test_conditions_are_asked_in_turn_until_one_fails(known: Known) -> None:
    """Attributes cost a read each, names and properties nothing."""
    wanted = udev_selector(name=("ttyACM*",), attributes={"dev": ("*",)})
    assert failed(known, PORT, wanted) == "udev.name"
    assert known.asked == []
