"""What to write as ``id`` where an ID is only as stable as the kernel's name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.devices.inventory import Inventory
from genericdp.explain.weak_ids import WeakIds, weak_ids
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from tests.cli.explain_output import HEAD
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path

WHY = "only as stable as the kernel's name, which can change at boot"
CONFIG = "  - {name: example.com/tty, match: [{path: '/dev/ttyX*'}]}\n"
NET = """\
  - name: example.com/can
    match: [{net: {linkType: can}}]
    inject: {env: {CAN: $(net.name)}}
"""
PCI = "devices/pci0000:00/0000:00:03.0"


def usb(number: int, *lines: str) -> str:
    """A USB device with what udev and the kernel say of it."""
    facts = [f"A: busnum=1\\n\nA: devnum={number}\\n\nA: idVendor=0403\\n\nA: idProduct=6001\\n"]
    return "\n".join(
        [
            f"P: /devices/pci0000:00/0000:00:14.0/usb1/1-{number}",
            "E: DEVTYPE=usb_device",
            "E: SUBSYSTEM=usb",
            *facts,
            *lines,
        ]
    )


def tty(number: int, place: str, *lines: str) -> str:
    """A serial port below some hardware."""
    return "\n".join(
        [
            f"P: /{place}/tty/ttyX{number}",
            f"N: ttyX{number}",
            f"E: DEVNAME=/dev/ttyX{number}",
            "E: MAJOR=240",
            f"E: MINOR={number}",
            "E: SUBSYSTEM=tty",
            f"A: dev=240:{number}\\n",
            *lines,
        ]
    )


def pci(address: str) -> str:
    """A PCI function."""
    return f"P: /devices/pci0000:00/{address}\nE: SUBSYSTEM=pci\nE: PCI_SLOT_NAME={address}"


def on_usb(number: int) -> str:
    return f"devices/pci0000:00/0000:00:14.0/usb1/1-{number}"


def on_port(number: int) -> str:
    return f"{on_usb(1)}/1-1:1.{number}"


PORTS = [f"P: /{on_port(n)}\nE: DEVTYPE=usb_interface\nE: SUBSYSTEM=usb" for n in range(2)]


def found(
    folder: Path, *parts: str, weak: tuple[str, ...] = (), config: str = CONFIG
) -> list[WeakIds]:
    """Return the weak IDs of a machine; those that name one of ``weak``, or all."""
    text, file = folder / "machine.umockdev", folder / "config.yaml"
    text.write_text("\n\n".join(parts) + "\n")
    file.write_text(HEAD + config)
    loading.build(text, folder / "root")
    resources = load([file]).resources
    host = HostCache(Root(folder / "root"))
    lists = decide(resources, host, node_name="n", previous={}, now=0.0).lists
    marked = {
        name: replace(
            listed,
            entries=tuple(
                replace(
                    entry,
                    device=replace(
                        entry.device, weak_id=WHY if not weak or entry.device.path in weak else ""
                    ),
                )
                for entry in listed.devices.values()
            ),
        )
        for name, listed in lists.items()
    }
    return [*weak_ids(resources, marked, Inventory(host, "n"))]


SERIALS = [usb(1, r"A: serial=AB12\n"), usb(2, r"A: serial=CD34\n")]
NOTHING = [tty(0, "devices/virtual"), tty(1, "devices/virtual")]
UUIDS = [tty(n, "devices/virtual", "E: USEC_INITIALIZED=1", f"E: {{}}=uuid-{n}") for n in range(2)]


@pytest.mark.parametrize(
    ("parts", "template"),
    [
        ([*SERIALS, tty(0, on_usb(1)), tty(1, on_usb(2))], "$(usb.serial)"),
        # Two ports of one adapter.
        ([*SERIALS, *PORTS, tty(0, on_port(0)), tty(1, on_port(1))], "$(device.name)"),
        # Another stick has the same number, as cheap ones have.
        (
            [*SERIALS, usb(3, r"A: serial=AB12\n"), tty(0, on_usb(1)), tty(1, on_usb(2))],
            "$(usb.port)",
        ),
        ([usb(1), usb(2), tty(0, on_usb(1)), tty(1, on_usb(2))], "$(usb.port)"),
        # One that has none.
        ([*SERIALS, tty(0, on_usb(1)), tty(1, "devices/virtual")], "$(device.name)"),
        ([one.format("DM_UUID") for one in UUIDS], "$(property.DM_UUID)"),
        ([one.format("ID_SERIAL") for one in UUIDS], "$(property.ID_SERIAL)"),
        ([pci("0000:00:03.0"), tty(0, PCI)], "$(pci.address)"),
        ([pci("0000:00:03.0"), tty(0, PCI), tty(1, PCI)], "$(device.name)"),
        (NOTHING, "$(device.name)"),
    ],
)
def test_an_id_of_the_hardware_is_suggested_that_no_other_device_has(
    parts: list[str], template: str, tmp_path: Path
) -> None:
    (weak,) = found(tmp_path, *parts)
    assert weak.template == template


@pytest.mark.parametrize(
    ("assigned", "template"), [("0", "$(net.address)"), ("1", "$(device.name)")]
)
def test_an_address_of_a_network_interface_counts_if_the_hardware_has_it(
    assigned: str, template: str, tmp_path: Path
) -> None:
    interfaces = [
        f"P: /devices/virtual/net/can{n}\nE: SUBSYSTEM=net\nE: INTERFACE=can{n}\nA: type=280\\n\n"
        f"A: address=02:00:00:00:00:0{n}\\n\nA: addr_assign_type={assigned}\\n"
        for n in range(2)
    ]
    (weak,) = found(tmp_path, *interfaces, config=NET)
    assert weak.template == template


def test_the_kernels_name_is_suggested_as_what_is_meant(tmp_path: Path) -> None:
    (weak,) = found(tmp_path, *NOTHING)
    assert str(weak) == (
        f"example.com/tty: the IDs ttyX0, ttyX1 are {WHY}"
        " (write id: $(device.name) if the kernel's name is meant)"
    )


def test_only_weak_ids_are_named(tmp_path: Path) -> None:
    parts = [*SERIALS, tty(0, on_usb(1)), tty(1, on_usb(2))]
    (weak,) = found(tmp_path, *parts, weak=("/dev/ttyX1",))
    assert str(weak) == f"example.com/tty: the ID 1-2-tty is {WHY} (write id: $(usb.serial))"


def test_stable_ids_are_no_warning(tmp_path: Path) -> None:
    assert found(tmp_path, *NOTHING, weak=("none",)) == []
