"""The machine with serial adapters, as several tests ask for it."""

from __future__ import annotations

from pathlib import Path

from genericdp.model import Selector
from tests.devices.making import resource
from tests.selecting import hardware, udev_selector, usb_selector

CONFIGS = Path(__file__).parent / "configs"
HUB = "/devices/pci0000:00/0000:00:14.0/usb1/1-1"
PORTS = [f"{HUB}/1-1.{i}" for i in (1, 2, 3, 4)]
IDS = [f"1-1.{i}:1.0-tty" for i in (1, 2, 3, 4)]
PORT = Selector(
    candidates=udev_selector(subsystem=("tty",)),
    hardware=hardware(usb=usb_selector(vendor=("*[!f]",))),
)
SERIAL = resource("serial", PORT)
RECORDED = resource(
    "recorded",
    Selector(candidates=udev_selector(subsystem=("tty",), properties={"ID_BUS": ("*",)})),
)
