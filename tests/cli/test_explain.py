"""``genericdp explain``: the first line names the cause, whoever asks and however."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.cli.explain import answer as explain
from genericdp.cli.patience import patiently
from genericdp.config.load import load
from tests.fixtures.hanging import HangingRoot
from tests.fixtures.make_tree import Tree, serial_node
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
FTDI = """\
  - name: example.com/serial
    match:
      - udev: {subsystem: tty}
        hardware: {usb: {vendor: "0403", product: "6001"}}
"""
STICK = '  - name: example.com/stick\n    match: [{usb: {vendor: "1a86"}}]\n'
LINKS = "  - name: example.com/serial\n    match: [{path: /dev/serial/by-id/*}]\n"
BY_ID = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A10K5UHJ-if00-port0"


def first_line(
    capsys: Capture, tmp_path: Path, root: Path, resources: str, device: str, *more: str
) -> str:
    """Ask, and give the answer's first line."""
    return answer(capsys, tmp_path, root, resources, device, *more)[0]


def answer(
    capsys: Capture, tmp_path: Path, root: Path, resources: str, device: str, *more: str
) -> list[str]:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + resources)
    code = main(
        ["explain", "--config", str(config), "--root", str(root), "--node-name=n", device, *more]
    )
    printed = capsys.readouterr().out
    assert code == (1 if "there is no such device on this host" in printed else 0)
    return printed.splitlines()


@pytest.fixture
def testbed(tmp_path: Path) -> Callable[[str], Path]:
    def build(name: str) -> Path:
        folder = tmp_path / name
        loading.build(loading.path_of(name), folder)
        return folder

    return build


QUESTIONS = {
    "the wrong product (D11)": (
        "serial-adapters",
        FTDI,
        "/dev/ttyUSB2",
        "/dev/ttyUSB2 is not offered: example.com/serial wants hardware.usb.product 6001,"
        " found 6015",
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
        " (name what to give with inject.devices)",
    ),
    "a node that comes with another device": (
        "gpu",
        '  - name: example.com/gpu\n    match: [{pci: {vendor: "1002", class: "0300*"}}]\n'
        "    inject: {devices: [{subsystem: drm}, {path: /dev/kfd}]}\n",
        "/dev/dri/renderD128",
        "/dev/dri/renderD128 is given with 0000:0a:00.0 of example.com/gpu (inject.devices)",
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
    """D1, D3, D5, D7, D8, D11, D12, D14: what users of others had to guess.

    Comes back if ``_RANK`` is reversed, ``held`` is always 0, or ``_related`` gives ``verdict``.
    """
    name, resources, device, expected = QUESTIONS[question]
    assert first_line(capsys, tmp_path, testbed(name), resources, device) == expected


@pytest.mark.parametrize(
    "device",
    [
        "/dev/ttyUSB0",
        "ttyUSB0",
        "//dev/./ttyUSB0",
        "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1.1:1.0-port0",
        "/sys/class/tty/ttyUSB0",
        "/sys/class/tty/ttyUSB0/uevent",
        "/sys/dev/char/188:0",
        "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/1-1.1:1.0/ttyUSB0/tty/ttyUSB0",
    ],
)
def test_a_device_has_many_names(
    device: str, capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    said = first_line(capsys, tmp_path, testbed("serial-adapters"), FTDI, device)
    assert said == f"{device} is offered: it is 1-1.1:1.0-tty of example.com/serial"


@pytest.mark.parametrize(
    "device", ["0000:0a:00.0", "0a:00.0", "0A:00.0", "/sys/bus/pci/devices/0000:0a:00.0"]
)
def test_a_pci_function_has_its_address(
    device: str, capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    gpu = '  - name: example.com/gpu\n    match: [{pci: {vendor: "1002", class: "0300*"}}]\n'
    gpu += "    inject: {devices: [{subsystem: drm}]}\n"
    said = first_line(capsys, tmp_path, testbed("gpu"), gpu, device)
    assert said == f"{device} is offered: it is 0000:0a:00.0 of example.com/gpu"


TEXT = """\
/dev/ttyUSB3 is not offered: example.com/stick takes the USB device 1-1.4 \
(/dev/bus/usb/001/006) that it sits on, not /dev/ttyUSB3

/dev/ttyUSB3 is a tty device (character device 188:3)

example.com/serial (config.yaml:4): does not take it
  match[0]  udev: {subsystem: tty}, hardware: {usb: {vendor: "0403", product: "6001"}}
    wants hardware.usb.vendor 0403, found 1a86 (the USB vendor id)
    read from /sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4/idVendor

example.com/stick (config.yaml:8): takes what it sits on: the USB device 1-1.4 \
(/dev/bus/usb/001/006)
  match[0]  usb: {vendor: "1a86"}
    takes USB devices, but it is a tty device
  hint: to offer /dev/ttyUSB3 itself match {udev: {subsystem: tty}, hardware: {usb: {vendor: \
"1a86", product: "7523"}}}"""


def test_each_resource_says_what_it_wants_and_where_that_was_read(
    capsys: Capture,
    tmp_path: Path,
    testbed: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = answer(capsys, tmp_path, testbed("serial-adapters"), FTDI + STICK, "/dev/ttyUSB3")
    facts = [line for line in lines if line.startswith("  ") and not line.startswith("   ")]
    assert [line.split()[0] for line in facts[:7]] == [
        *("links", "sysfs", "driver", "udev", "usb", "pci", "properties")
    ]
    known = {line for line in facts if line.split()[0] not in {"match[0]", "hint:"}}
    text = "\n".join(line for line in lines if line not in known)
    assert text.replace(str(tmp_path / "config.yaml"), "config.yaml") == TEXT


def test_the_suggested_selector_does_what_it_promises(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    """D14. The mistake is back if ``_match`` leaves out ``hardware`` or names ``usb`` alone."""
    root = testbed("serial-adapters")
    for asked, resources in {"/dev/ttyUSB3": STICK, "1-1.4": STICK}.items():
        lines = answer(capsys, tmp_path, root, resources, asked)
        (hint,) = (line for line in lines if line.startswith("  hint: "))
        mended = f"  - name: example.com/mended\n    match: [{hint.partition('match ')[2]}]\n"
        said = first_line(capsys, tmp_path, root, mended, "/dev/ttyUSB3")
        assert said == "/dev/ttyUSB3 is offered: it is 1-1.4:1.0-tty of example.com/mended"


def test_what_cannot_be_found_says_what_was_tried_and_what_is_near(
    capsys: Capture, tmp_path: Path
) -> None:
    """D3: a device that is not there is said to be not there, not left out in silence."""
    root = serial_node(tmp_path / "host").folder
    lines = answer(
        capsys, tmp_path, root, LINKS.replace("serial/by-id/*", "ttyUSB*"), "/dev/ttyUSB7"
    )
    assert lines == [
        "/dev/ttyUSB7 is not offered: there is no such device on this host",
        "  there is no /dev/ttyUSB7, or it is a link that leads nowhere",
        "  no device of sysfs has such a file",
        "  match[0] of example.com/serial looks at it as soon as it is there",
        "  near: /dev/ttyUSB1 or /dev/ttyUSB0",
    ]
    lines = answer(capsys, tmp_path, root, LINKS, "05:00.0")
    assert lines[1:] == ["  no PCI function has the address 0000:05:00.0"]
    lines = answer(capsys, tmp_path, root, LINKS, "enp1s0")
    assert [line.split("enp1s0")[0] for line in lines[1:]] == [
        "  no USB device is at a port ",
        "  no network interface is called ",
        "  there is no /dev/",
        "  the kernel calls no device ",
    ]


def test_a_device_whose_file_is_missing_is_found_by_it(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    """As in a container with a /dev of its own."""
    root = testbed("serial-adapters")
    (root / "dev/ttyUSB0").unlink()
    assert first_line(capsys, tmp_path, root, FTDI, "/dev/ttyUSB0") == (
        "/dev/ttyUSB0 is not offered: example.com/serial takes it, but its node /dev/ttyUSB0"
        " does not exist"
    )


def test_json_says_the_same(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    root = testbed("serial-adapters")
    lines = answer(capsys, tmp_path, root, FTDI + STICK, "/dev/ttyUSB2", "-o", "json")
    said = json.loads("\n".join(lines))
    assert (said["asked"], said["found"]) == ("/dev/ttyUSB2", True)
    assert said["answer"].endswith("wants hardware.usb.product 6001, found 6015")
    assert said["device"]["usb"]["product"] == "6015"
    serial, stick = said["resources"]
    assert (serial["name"], serial["outcome"]) == ("example.com/serial", "not taken")
    assert serial["place"] == f"{tmp_path}/config.yaml:4:5"
    assert serial["match"] == [serial["closest"]]
    assert serial["closest"] == {
        "entry": "match[0]",
        "selector": 'udev: {subsystem: tty}, hardware: {usb: {vendor: "0403", product: "6001"}}',
        "takes": False,
        "path": "/dev/ttyUSB2",
        "why": "wants hardware.usb.product 6001, found 6015",
        "key": "hardware.usb.product",
        "wanted": ["6001"],
        "found": "6015",
        "readFrom": "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.3/idProduct",
    }
    assert stick["match"][0]["why"] == "takes USB devices, but it is a tty device"
    lines = answer(capsys, tmp_path, root, FTDI, "/dev/ttyUSB7", "-o", "json")
    said = json.loads("\n".join(lines))
    assert (said["found"], said["near"][0]) == (False, "/dev/ttyUSB3")


def test_a_link_that_anybody_could_have_made_is_told_as_such(
    capsys: Capture, tmp_path: Path
) -> None:
    """D13: comes back if ``trouble`` of a file is not a reason."""
    tree = serial_node(tmp_path / "host")
    tree.link("dev/serial/by-id/a\x1b[31mb", "../../ttyUSB0")
    said = first_line(capsys, tmp_path, tree.folder, LINKS, "/dev/serial/by-id/a\x1b[31mb")
    assert said.isprintable()
    assert said.startswith("/dev/serial/by-id/a\\x1b[31mb is offered")


def test_a_folder_is_no_device_file(capsys: Capture, tmp_path: Path) -> None:
    root = serial_node(tmp_path / "host").folder
    resources = "  - name: example.com/sound\n    match: [{path: /dev/snd}]\n"
    assert first_line(capsys, tmp_path, root, resources, "/dev/snd") == (
        "/dev/snd is not offered: example.com/sound wants type char or block, found directory"
    )


@pytest.fixture
def hanging(testbed: Callable[[str], Path]) -> Iterator[HangingRoot]:
    """A root whose files can be made to never answer."""
    root = HangingRoot(testbed("serial-adapters"))
    yield root
    root.answer()
    for one in threading.enumerate():
        if one.name == "looking":
            one.join()


def test_an_attribute_that_does_not_answer_does_not_hold_up_the_answer(
    hanging: HangingRoot, tmp_path: Path, capsys: Capture
) -> None:
    """Comes back if ``patiently`` calls ``work`` itself, without a thread."""
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + FTDI)
    resources = load([config]).resources

    def ask(device: str) -> str:
        said = patiently(
            hanging,
            lambda look, facts: explain(device, resources, look, facts, "n"),
            look_seconds=0.2,
        )
        assert isinstance(said, tuple)
        return said[0].headline

    attribute = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/idVendor"
    hanging.hanging = {attribute}
    assert ask("/dev/ttyUSB0") == (
        "/dev/ttyUSB0 is not offered: example.com/serial wants hardware.usb.vendor 0403, but"
        f" {attribute} cannot be read: reading it does not end"
    )
    assert ask("/dev/ttyUSB1").startswith("/dev/ttyUSB1 is offered")
    line = f"looking at '{attribute}' does not end: going on without it\n"
    assert capsys.readouterr().err == line * 2
    uevent = attribute.replace("idVendor", "uevent")
    hanging.hanging = {uevent}
    assert ask("/dev/ttyUSB0") == (
        "/dev/ttyUSB0 is not offered: example.com/serial wants hardware.usb, but"
        f" {uevent} cannot be read: reading it does not end"
    )
    tty = attribute.replace("idVendor", "1-1.1:1.0/ttyUSB0/tty/ttyUSB0/uevent")
    hanging.hanging = {tty}
    assert ask(tty.removesuffix("/uevent")).endswith(
        f"{tty} cannot be read: reading it does not end"
    )
    assert ask("/dev/ttyUSB1").startswith("/dev/ttyUSB1 is offered")


def test_a_tree_of_files_alone_is_explained_too(capsys: Capture, tmp_path: Path) -> None:
    tree = Tree(tmp_path / "host")
    tree.write("dev/fuse", "")
    said = first_line(capsys, tmp_path, tree.folder, FTDI, "/dev/fuse")
    assert said == (
        "/dev/fuse is not offered: example.com/serial takes sysfs devices, but sysfs knows"
        " nothing of it"
    )
