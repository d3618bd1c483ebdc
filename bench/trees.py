"""A made-up machine with 20,000 devices: serial adapters on the hubs of many USB controllers."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ADAPTERS = 5_000
"""Each is four devices of sysfs: USB device, interface, port, tty."""
DEVICES = 4 * ADAPTERS
_PER_CONTROLLER = 100
_MAJOR = 188
_PCI = "devices/pci0000:00"


def syspath(number: int) -> str:
    """Give the folder of an adapter's tty, as a path of the host."""
    return f"/sys/{_usb(number)}/{_interface(number)}/ttyUSB{number}/tty/ttyUSB{number}"


def make(folder: Path, adapters: int = ADAPTERS) -> None:
    """Make the tree in a folder, with so many adapters."""
    sys = folder / "sys"
    for name in ("bus/usb/devices", "bus/usb-serial/devices", "bus/pci/devices", "class/tty"):
        (sys / name).mkdir(parents=True)
    (sys / "dev" / "char").mkdir(parents=True)
    (folder / "dev").mkdir()
    for controller in range(-(-adapters // _PER_CONTROLLER)):
        address = _address(controller)
        device = f"{_PCI}/{address}"
        _device(sys, device, "bus/pci", f"PCI_SLOT_NAME={address}\n", vendor="0x8086")
    for number in range(adapters):
        add(folder, number)


def add(folder: Path, number: int) -> None:
    """Plug an adapter in."""
    sys, usb, name = folder / "sys", _usb(number), f"ttyUSB{number}"
    port = f"{usb}/{_interface(number)}/{name}"
    _device(
        sys,
        usb,
        "bus/usb",
        "DEVTYPE=usb_device\n",
        idVendor="0403" if number % 45 else "1a86",
        serial=f"A{number:07d}",
        busnum="1",
        devnum=str(number),
    )
    interface = f"{usb}/{_interface(number)}"
    _device(sys, interface, "bus/usb", "DEVTYPE=usb_interface\n", bInterfaceNumber="00")
    _device(sys, port, "bus/usb-serial", "DRIVER=ftdi_sio\n")
    tty = f"{port}/tty/{name}"
    _device(sys, tty, "class/tty", f"MAJOR={_MAJOR}\nMINOR={number}\nDEVNAME={name}\n")
    _link(sys / "dev" / "char" / f"{_MAJOR}:{number}", f"../../{tty}")
    node = folder / "dev" / name
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(_MAJOR, number))
    except PermissionError:
        node.touch()  # it stands for a node, at the price of a look at all of sysfs


def remove(folder: Path, number: int) -> None:
    """Take the tty away: its node, and what leads to its folder."""
    name = f"ttyUSB{number}"
    (folder / "dev" / name).unlink()
    (folder / "sys" / "class" / "tty" / name).unlink()
    (folder / "sys" / "dev" / "char" / f"{_MAJOR}:{number}").unlink()
    (folder / syspath(number)[1:] / "uevent").unlink()


def _address(controller: int) -> str:
    return f"0000:00:{controller // 8:02x}.{controller % 8}"


def _usb(number: int) -> str:
    controller, port = divmod(number, _PER_CONTROLLER)
    bus = controller + 1
    return f"{_PCI}/{_address(controller)}/usb{bus}/{bus}-{port + 1}"


def _interface(number: int) -> str:
    return f"{_usb(number).rpartition('/')[2]}:1.0"


def _device(sys: Path, device: str, subsystem: str, uevent: str, **attributes: str) -> None:
    folder, name = sys / device, device.rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    up = "../" * (device.count("/") + 1)
    _link(folder / "subsystem", f"{up}{subsystem}")
    members = f"{subsystem}/devices" if subsystem.startswith("bus") else subsystem
    _link(sys / members / name, f"{'../' * (members.count('/') + 1)}{device}")
    for attribute, text in {"uevent": uevent, **attributes}.items():
        _write(folder / attribute, uevent if attribute == "uevent" else f"{text}\n")


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _link(path: Path, target: str) -> None:
    if not path.is_symlink():
        path.symlink_to(target)
