"""The machine with serial adapters, as several tests request it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.host.events import Uevent
from genericdp.model import Selector

from tests.cases.machine import Machine
from tests.cases.running import DIRECTORY
from tests.devices.making import resource
from tests.selecting import hardware, udev_selector, usb_selector

if TYPE_CHECKING:
    from pathlib import Path


CASES = DIRECTORY / "testbeds"
HUB = "/devices/pci0000:00/0000:00:14.0/usb1/1-1"
NAMES = [f"1-1.{i}" for i in (1, 2, 3, 4)]
PORTS = [f"{HUB}/{name}" for name in NAMES]
IDS = [f"{name}:1.0-tty" for name in NAMES]
PORT = Selector(
    candidates=udev_selector(subsystem=("tty",)),
    hardware=hardware(usb=usb_selector(vendor=("*[!f]",))),
)
SERIAL = resource("serial", PORT)
RECORDED = resource(
    "recorded",
    Selector(candidates=udev_selector(subsystem=("tty",), properties={"ID_BUS": ("*",)})),
)


def built(name: str, directory: Path) -> Machine:
    """Build a machine of the testbeds."""
    return Machine(directory, CASES / name / "machine.yaml")


def events(action: str, machine: Machine, name: str) -> list[Uevent]:
    """Return what the kernel reports a device and all below it."""
    return [Uevent(action=action, syspath=f"/sys{entry.path}") for entry in machine.below(name)]
