"""``hardware``: conditions on what a device is or sits on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.inventory import Inventory
from genericdp.devices.selectors import why_not
from genericdp.model import Selector, SysSelector
from tests.devices.known import PORT, Known, adapter_and_card
from tests.devices.making import resource
from tests.selecting import hardware, pci_selector, udev_selector, usb_selector

if TYPE_CHECKING:
    from genericdp.devices.inventory import SysDevice
    from genericdp.devices.selectors import Condition

BELOW = PORT.rpartition("/tty/")[0]
FTDI = usb_selector(vendor=("0403",))
HUB = usb_selector(vendor=("05e3",))


@pytest.fixture
def known() -> Known:
    return adapter_and_card()


def failed(hardware: tuple[SysSelector, ...], device: SysDevice, known: Known) -> Condition | None:
    """The condition on hardware for which a selector of anything does not take a device."""
    selector = Selector(candidates=udev_selector(), hardware=hardware)
    return why_not(selector, device, resource("x"), Inventory(known))


@pytest.mark.parametrize(
    ("path", "hardware", "expected"),
    [
        pytest.param(PORT, hardware(), None, id="nothing-asked"),
        pytest.param(PORT, hardware(usb=FTDI), None, id="the-nearest-usb-device"),
        pytest.param(PORT, hardware(usb=HUB), "hardware.usb.vendor", id="not-one-further-down"),
        pytest.param(PORT, hardware(usb=usb_selector()), None, id="any-usb-device"),
        pytest.param(PORT, hardware(usb=usb_selector(serial=("aBc",))), None, id="its-serial"),
        pytest.param(
            PORT,
            hardware(usb=usb_selector(serial=("ABC",))),
            "hardware.usb.serial",
            id="a-serial-is-no-hexadecimal-number",
        ),
        pytest.param("0000:00:14.0/usb1/1-1", hardware(usb=HUB), None, id="what-it-is-itself"),
        pytest.param("0000:3b:00.0/net/ens1", hardware(usb=FTDI), "hardware.usb", id="no-usb"),
        pytest.param(
            PORT, hardware(usb=usb_selector(interface=("0A",))), None, id="the-interface-between"
        ),
        pytest.param(
            PORT,
            hardware(usb=usb_selector(interface=("0b",))),
            "hardware.usb.interface",
            id="another-interface",
        ),
        pytest.param(
            "0000:00:14.0/usb1/1-1",
            hardware(usb=usb_selector(interface=("*",))),
            "hardware.usb.interface",
            id="no-interface-between",
        ),
        pytest.param(
            PORT, hardware(pci=pci_selector(driver=("xhci_hcd",))), None, id="the-pci-function"
        ),
        pytest.param(
            PORT,
            hardware(usb=FTDI, pci=pci_selector(driver=("ahci",))),
            "hardware.pci.driver",
            id="both-must-hold",
        ),
        pytest.param(
            PORT, hardware(pci=pci_selector(driver=("x",))), "hardware.pci.driver", id="pci-alone"
        ),
        pytest.param(
            PORT,
            hardware(udev=udev_selector(attributes={"idVendor": ("05e3",)})),
            None,
            id="udev-looks-at-all-ancestors",
        ),
        pytest.param(
            PORT,
            hardware(
                udev=udev_selector(attributes={"idVendor": ("05e3",), "idProduct": ("6001",)})
            ),
            "hardware.udev.attributes.idProduct",
            id="but-one-and-the-same-has-it-all",
        ),
        pytest.param(
            PORT,
            hardware(udev=udev_selector(subsystem=("tty",), name=("ttyUSB0",))),
            None,
            id="udev-may-be-itself",
        ),
        pytest.param(
            PORT,
            hardware(udev=udev_selector(subsystem=("scsi",))),
            "hardware.udev.subsystem",
            id="no-such-ancestor",
        ),
    ],
)
def test_what_a_device_is_or_sits_on(
    known: Known, path: str, hardware: tuple[SysSelector, ...], expected: str | None
) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{path}"]
    condition = failed(hardware, device, known)
    assert (condition and condition.key) == expected


def test_a_failed_condition_tells_what_was_found_and_where(known: Known) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{PORT}"]
    failure = failed(hardware(usb=HUB), device, known)
    assert failure is not None
    assert (failure.wanted, failure.found) == (("05e3",), "0403")
    assert failure.where == "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4"


def test_what_sits_on_no_such_hardware_at_all_says_which(known: Known) -> None:
    bare = known.add("/sys/devices/virtual/misc/bare", "misc")
    failure = failed(hardware(pci=pci_selector()), bare, known)
    assert failure is not None
    assert (failure.key, failure.wanted, failure.found, failure.where) == (
        "hardware.pci",
        ("*",),
        None,
        bare.syspath,
    )


def test_of_several_ancestors_the_one_that_came_furthest_tells_what_is_wrong(known: Known) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{PORT}"]
    wanted = udev_selector(subsystem=("usb-serial",), driver=("ch341-uart",))
    failure = failed(hardware(udev=wanted), device, known)
    assert failure is not None
    assert (failure.found, failure.where) == ("ftdi_sio", f"/sys/devices/pci0000:00/{BELOW}")


def test_of_ancestors_that_came_equally_far_the_nearest_tells_what_is_wrong(known: Known) -> None:
    device = known.devices[f"/sys/devices/pci0000:00/{PORT}"]
    failure = failed(hardware(udev=udev_selector(subsystem=("none",))), device, known)
    assert failure is not None
    assert (failure.found, failure.where) == ("tty", device.syspath)
