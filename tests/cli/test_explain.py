"""``genericdp explain``: the first line names the cause, whoever asks and however."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.explain_output import FTDI, LINKS, STICK, first_line
from tests.fixtures.make_tree import Tree, serial_node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.explain_output import Capture

QUESTIONS = {
    "the wrong product (D11)": (
        "serial-adapters",
        FTDI,
        "/dev/ttyUSB2",
        "/dev/ttyUSB2 is not offered: example.com/serial wants hardware.usb.product 6001,"
        " found 6015",
    ),
    "a property in other letters": (
        "serial-adapters",
        '  - name: example.com/x\n    match: [{udev: {properties: {ID_VENDOR_ID: "1A86"}}}]\n',
        "/dev/ttyUSB3",
        "/dev/ttyUSB3 is not offered: example.com/x wants udev.properties.ID_VENDOR_ID 1A86,"
        " found 1a86 (upper and lower case count here)",
    ),
    "another vendor": (
        "serial-adapters",
        FTDI.replace(', product: "6001"', ""),
        "/dev/ttyUSB3",
        "/dev/ttyUSB3 is not offered: example.com/serial wants hardware.usb.vendor 0403,"
        " found 1a86",
    ),
    "the port of a stick whose tty does not fit (D14)": (
        "serial-adapters",
        FTDI,
        "1-1.3",
        "1-1.3 is not offered: example.com/serial wants hardware.usb.product 6001, found 6015"
        " (asked of /dev/ttyUSB2, which sits on it)",
    ),
    "the port of a stick whose tty is offered (D14)": (
        "serial-adapters",
        FTDI,
        "1-1.1",
        "1-1.1 itself is not offered, but example.com/serial offers what sits on it:"
        " /dev/ttyUSB0 as 1-1.1:1.0-tty",
    ),
    "the tty of a stick that is matched itself (D14)": (
        "serial-adapters",
        '  - name: example.com/stick\n    match: [{usb: {vendor: "1a86"}}]\n',
        "/dev/ttyUSB3",
        "/dev/ttyUSB3 is not offered: example.com/stick takes the USB device 1-1.4"
        " (/dev/bus/usb/001/006) that it sits on, not /dev/ttyUSB3",
    ),
    "unplugged (D3)": (
        "serial-adapters",
        FTDI,
        "/dev/ttyUSB7",
        "/dev/ttyUSB7 is not offered: there is no such device on this host",
    ),
    "another stick at the same name (D5)": (
        "serial-adapters",
        FTDI.replace('product: "6001"', "serial: FTAA0001"),
        "/dev/ttyUSB0",
        "/dev/ttyUSB0 is not offered: example.com/serial wants hardware.usb.serial FTAA0001,"
        " found A10K5UHJ",
    ),
    "no serial number": (
        "serial-adapters",
        FTDI.replace('vendor: "0403", product: "6001"', 'serial: "*"'),
        "/dev/ttyUSB3",
        "/dev/ttyUSB3 is not offered: example.com/serial wants hardware.usb.serial *,"
        " but it has none",
    ),
    "a serial number as id that two share (D1)": (
        "serial-adapters",
        f"{FTDI}    id: $(usb.serial)\n",
        "/dev/ttyUSB1",
        "/dev/ttyUSB1 is not offered: example.com/serial takes it, but its id 'A10K5UHJ' is that"
        " of /dev/ttyUSB0 (add something to id that tells them apart)",
    ),
    "a target whose link is matched (D7)": (
        "serial-adapters",
        LINKS,
        "/dev/ttyUSB2",
        "/dev/ttyUSB2 is offered: it is 1-1.3:1.0-tty of example.com/serial",
    ),
    "two resources that match it (D8)": (
        "serial-adapters",
        f"{FTDI}{LINKS.replace('m/serial', 'm/rest')}    exclude: [{{path: /dev/none}}]\n",
        "/dev/ttyUSB0",
        "/dev/ttyUSB0 is offered: it is 1-1.1:1.0-tty of example.com/serial",
    ),
    "excluded by its name (D12)": (
        "serial-adapters",
        f'{FTDI}    exclude: [{{udev: {{subsystem: tty, name: "ttyUSB*"}}}}]\n',
        "/dev/ttyUSB0",
        "/dev/ttyUSB0 is not offered: example.com/serial excludes it by"
        " exclude[0] udev: {subsystem: tty, name: ttyUSB*}",
    ),
    "excluded by what it sits on": (
        "serial-adapters",
        f'{FTDI}    exclude: [{{path: /dev/none}}, {{usb: {{port: "1-1.1"}}}}]\n',
        "/dev/ttyUSB0",
        "/dev/ttyUSB0 is not offered: example.com/serial excludes it by"
        ' exclude[1] usb: {port: "1-1.1"}, which takes what it sits on',
    ),
    "only for other nodes": (
        "serial-adapters",
        f'{FTDI}    nodeNames: ["edge-*"]\n',
        "/dev/ttyUSB0",
        "/dev/ttyUSB0 is not offered: example.com/serial is not for this node"
        " (it is for nodes called edge-*, this one is n)",
    ),
    "for other nodes, beside one that looks elsewhere": (
        "serial-adapters",
        f'{STICK}{FTDI}    nodeNames: ["edge-*"]\n',
        "/dev/ttyUSB0",
        "/dev/ttyUSB0 is not offered: example.com/serial is not for this node"
        " (it is for nodes called edge-*, this one is n)",
    ),
    "a device without a node": (
        "vfio",
        "  - name: example.com/nic\n    match: [{udev: {subsystem: pci}}]\n"
        "    inject: {mounts: [{hostPath: /opt, containerPath: /opt}]}\n",
        "3b:01.0",
        "3b:01.0 is not offered: example.com/nic takes it, but it has no device node"
        " (write inject: {devices: []} if it needs none; net and pci selectors take what has none)",
    ),
    "one that needs no node": (
        "vfio",
        "  - name: example.com/nic\n    match: [{udev: {subsystem: pci}}]\n"
        "    inject: {devices: [], mounts: [{hostPath: /opt, containerPath: /opt}]}\n",
        "3b:01.0",
        "3b:01.0 is offered: it is 0000:3b:01.0 of example.com/nic",
    ),
    "a node that comes with another device": (
        "gpu",
        '  - name: example.com/gpu\n    match: [{pci: {vendor: "1002", class: "0300*"}}]\n'
        "    inject: {devices: [{subsystem: drm}, {path: /dev/kfd}]}\n",
        "/dev/dri/renderD128",
        "/dev/dri/renderD128 is given with 0000:0a:00.0 of example.com/gpu (inject.devices)",
    ),
    "a node whose device fails": (
        "gpu",
        '  - name: example.com/gpu\n    match: [{pci: {vendor: "1002", class: "0300*"}}]\n'
        "    inject: {devices: [{subsystem: drm, containerPath: /dev/gpu}]}\n",
        "/dev/dri/renderD128",
        "/dev/dri/renderD128 is not offered: example.com/gpu takes the PCI function 0000:0a:00.0"
        " that it sits on, but does not offer that: device 0000:0a:00.0: /dev/dri/card0 and"
        " /dev/dri/renderD128 would both be '/dev/gpu' in the container"
        ' (let containerPath end in "/": then base names are kept)',
    ),
    "a node that is missing": (
        "gpu",
        '  - name: example.com/gpu\n    match: [{pci: {vendor: "1002", class: "0300*"}}]\n'
        "    inject: {devices: [{subsystem: drm}, {path: /dev/kfd0}]}\n",
        "0000:0a:00.0",
        "0000:0a:00.0 is Unhealthy as 0000:0a:00.0 of example.com/gpu: /dev/kfd0 does not exist",
    ),
    "a card whose PCI function is matched (D14)": (
        "gpu",
        '  - name: example.com/gpu\n    match: [{pci: {vendor: "1002"}}]\n'
        "    inject: {env: {GPU: $(pci.address)}}\n",
        "/dev/dri/card0",
        "/dev/dri/card0 is not offered: example.com/gpu takes the PCI function 0000:0a:00.0"
        " that it sits on, not /dev/dri/card0",
    ),
    "a network interface of another kind": (
        "can",
        "  - name: example.com/can\n    match: [{net: {linkType: ether}}]\n"
        "    inject: {env: {NET: $(net.name)}}\n",
        "can0",
        "can0 is not offered: example.com/can wants net.linkType ether, found can",
    ),
    "a network interface, where only device files are looked for": (
        "can",
        "  - name: example.com/kvm\n    match: [{path: /dev/kvm}]\n",
        "can0",
        "can0 is not offered: example.com/kvm looks for device files, and this device has none",
    ),
    "an interface number": (
        "webcam",
        "  - name: example.com/camera\n    match:\n      - udev: {subsystem: video4linux}\n"
        '        hardware: {usb: {interface: "02"}}\n',
        "/dev/video0",
        "/dev/video0 is not offered: example.com/camera wants hardware.usb.interface 02, found 00",
    ),
    "hardware that there is not": (
        "nvme",
        "  - name: example.com/disk\n    match:\n      - udev: {subsystem: block}\n"
        "        hardware: {usb: {}}\n",
        "/dev/nvme0n1",
        "/dev/nvme0n1 is not offered: example.com/disk wants hardware.usb,"
        " but it is no USB device and does not sit on one",
    ),
    "a value that cannot be had": (
        "serial-adapters",
        FTDI + "        values: {place: rack-*}\n"
        '    values: {place: {file: "$(device.syspath)/place"}}\n',
        "/dev/ttyUSB0",
        "/dev/ttyUSB0 is not offered: example.com/serial wants values.place rack-*, but the value"
        " 'place': /sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/1-1.1:1.0/ttyUSB0/tty/"
        "ttyUSB0/place: it does not exist",
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_line_names_the_cause(
    question: str, capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    """D1, D3, D5, D7, D8, D11, D12, D14: what users of others had to guess."""
    name, resources, device, expected = QUESTIONS[question]
    assert first_line(capsys, tmp_path, testbed(name), resources, device) == expected


def test_a_link_that_anybody_could_have_made_is_told_as_such(
    capsys: Capture, tmp_path: Path
) -> None:
    """D13: its file is named with the reason."""
    tree = serial_node(tmp_path / "host")
    tree.link("dev/serial/by-id/a\x1b[31mb", "../../ttyUSB0")
    said = first_line(capsys, tmp_path, tree.folder, LINKS, "/dev/serial/by-id/a\x1b[31mb")
    assert said.isprintable()
    assert said.startswith("/dev/serial/by-id/a\\x1b[31mb is offered")


def test_a_usb_device_whose_node_is_missing_is_told_as_such(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    root = testbed("serial-adapters")
    (root / "dev/bus/usb/001/006").unlink()
    assert first_line(capsys, tmp_path, root, STICK, "1-1.4") == (
        "1-1.4 is not offered: example.com/stick takes it, but its node /dev/bus/usb/001/006 does"
        " not exist (in a container: mount /dev/bus/usb/001 of the host)"
    )


def test_a_folder_is_no_device_file(capsys: Capture, tmp_path: Path) -> None:
    root = serial_node(tmp_path / "host").folder
    resources = "  - name: example.com/sound\n    match: [{path: /dev/snd}]\n"
    assert first_line(capsys, tmp_path, root, resources, "/dev/snd") == (
        "/dev/snd is not offered: example.com/sound wants type char or block, found directory"
    )


def test_a_tree_of_files_alone_is_explained_too(capsys: Capture, tmp_path: Path) -> None:
    tree = Tree(tmp_path / "host")
    tree.write("dev/fuse", "")
    said = first_line(capsys, tmp_path, tree.folder, FTDI, "/dev/fuse")
    assert said == (
        "/dev/fuse is not offered: example.com/serial takes sysfs devices, but sysfs knows"
        " nothing of it"
    )
