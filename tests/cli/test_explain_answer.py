"""``genericdp explain``: all that it says, as text and JSON, and what it says of the unknown."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.cli.explain import answer as explain
from genericdp.cli.patience import patiently
from genericdp.config.load import load
from tests.cli.explain_output import FTDI, HEAD, LINKS, STICK, answer, first_line
from tests.fixtures.hanging import HangingRoot
from tests.fixtures.make_tree import Tree, serial_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.explain_output import Capture


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


@pytest.mark.parametrize("device", ["1-1.1:1.0-tty", "1-1.1:1.0-tty::1"])
def test_the_id_of_a_device_on_offer_is_a_name_of_it_too(
    device: str, capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    resources = f"{FTDI}    replicas: 2\n"
    said = first_line(capsys, tmp_path, testbed("serial-adapters"), resources, device)
    assert said == f"{device} is offered: it is 1-1.1:1.0-tty of example.com/serial"


def test_an_empty_text_is_no_device(capsys: Capture) -> None:
    assert main(["explain", "--config", "any.yaml", ""]) == 2
    assert "DEVICE is an empty text" in capsys.readouterr().err


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

example.com/serial (config.yaml:4): not taken
  match[0]  udev: {subsystem: tty}, hardware: {usb: {vendor: "0403", product: "6001"}}
    wants hardware.usb.vendor 0403, found 1a86
    read from /sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4/idVendor

example.com/stick (config.yaml:8): what it sits on is taken: the USB device 1-1.4 \
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


@pytest.mark.parametrize(
    ("path", "kind", "type_"),
    [("/run/udev/data/c188:0", "plain file", "file"), ("/sys/devices", "folder", "directory")],
)
def test_what_is_no_device_is_said_to_be_none(
    capsys: Capture,
    tmp_path: Path,
    testbed: Callable[[str], Path],
    path: str,
    kind: str,
    type_: str,
) -> None:
    config = tmp_path / "config.yaml"
    root = str(testbed("serial-adapters"))
    argv = ["explain", "--config", str(config), "--root", root, path]
    config.write_text(HEAD + LINKS)
    assert main(argv) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path} is not offered: it is a {kind}, not a device"
    assert lines[1].startswith("  give a device file,")
    assert main([*argv, "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["exists"] is False
    match = f"    match: [{{path: /x, type: {type_}}}]\n    inject: {{env: {{A: b}}}}\n"
    config.write_text(f"{HEAD}  - name: example.com/data\n{match}")
    assert main(argv) == 0  # this config may mean it
    assert "example.com/data" in capsys.readouterr().out


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
        "  near: /dev/ttyUSB0 or /dev/ttyUSB1",
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


def test_what_is_near_is_of_the_same_kind(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    """For a serial adapter: other serial ports on hardware, not the consoles of /dev/tty60."""
    root = testbed("serial-adapters")
    tree = Tree(root)
    for number in (0, 6, 60):
        tree.node(f"tty{number}", f"4:{number}", at="virtual/tty")
    for name in ("ttyACM9", "ttyUBS0"):
        lines = answer(capsys, tmp_path, root, FTDI, f"/dev/{name}")
        near = lines[-1].removeprefix("  near: ").split(" or ")
        assert near == [f"/dev/ttyUSB{number}" for number in range(4)]


def test_a_reason_is_given_once(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    excluding = f"{FTDI}    exclude: [{{path: /dev/ttyUSB*}}]\n"
    lines = answer(capsys, tmp_path, testbed("serial-adapters"), excluding, "/dev/ttyUSB0")
    (told,) = (line for line in lines if "exclude[0]" in line)
    assert told == (
        "/dev/ttyUSB0 is not offered: example.com/serial excludes it by"
        " exclude[0] path: /dev/ttyUSB*"
    )
    assert f"example.com/serial ({tmp_path / 'config.yaml'}:4): excluded" in lines


def test_of_many_resources_those_are_shown_that_come_closest(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    others = "".join(
        f"  - name: example.com/other{i}\n    match: [{{path: /dev/none{i}}}]\n" for i in range(37)
    )
    wrong = FTDI.replace("m/serial", "m/wrong").replace('product: "6001"', 'product: "6002"')
    nearly = FTDI.replace("m/serial", "m/nearly").replace('"0403"', '"0404"')
    resources = others + FTDI + wrong + nearly + STICK.replace("1a86", "1a87")
    root = testbed("serial-adapters")
    lines = answer(capsys, tmp_path, root, resources, "/dev/ttyUSB0")
    shown = [line.partition(" ")[0] for line in lines[1:] if line.startswith("example.com/")]
    names = ("serial", "wrong", "nearly")
    assert shown == [f"example.com/{name}" for name in names]
    assert lines[-1] == "38 other resources not shown: these come closer (all: -o json)"
    lines = answer(capsys, tmp_path, root, others + STICK.replace("1a86", "1a87"), "/dev/ttyUSB0")
    assert len([line for line in lines[1:] if line.startswith("example.com/")]) == 3
    said = json.loads(
        "\n".join(answer(capsys, tmp_path, root, resources, "/dev/ttyUSB0", "-o", "json"))
    )
    assert len(said["resources"]) == 41


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
    assert (said["asked"], said["exists"]) == ("/dev/ttyUSB2", True)
    assert said["answer"].endswith("wants hardware.usb.product 6001, found 6015")
    assert said["candidate"]["usb"]["product"] == "6015"
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
    assert (said["exists"], said["near"][0]) == (False, "/dev/ttyUSB0")


def test_json_names_the_file_that_a_number_of_an_interface_was_read_from(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    """It is a file of the interface, not of the USB device that the other conditions ask."""
    root = testbed("serial-adapters")
    asks = FTDI.replace('vendor: "0403"', 'interface: "07"')
    assert asks != FTDI
    lines = answer(capsys, tmp_path, root, asks, "/dev/ttyUSB0", "-o", "json")
    (said,) = json.loads("\n".join(lines))["resources"]
    assert said["closest"]["why"] == "wants hardware.usb.interface 07, found 00"
    file = said["closest"]["readFrom"]
    assert file.endswith("/usb1/1-1/1-1.1/1-1.1:1.0/bInterfaceNumber")
    assert (root / file.removeprefix("/")).read_text().strip() == "00"


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
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + FTDI)
    resources = load([config]).resources

    def ask(device: str) -> str:
        said = patiently(
            hanging,
            lambda host: explain(device, resources, host, "n"),
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
    assert capsys.readouterr().err == line
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


def test_a_link_that_another_device_of_the_same_serial_number_has_is_told_of(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    resources = "  - name: example.com/serial\n    match: [{path: /dev/serial/by-id/*}]\n"
    said = first_line(capsys, tmp_path, testbed("serial-adapters"), resources, "/dev/ttyUSB0")
    link = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A10K5UHJ-if00-port0"
    assert said == (
        "/dev/ttyUSB0 is not offered: example.com/serial looks at /dev/serial/by-id/*, but"
        f" {link} leads to /dev/ttyUSB1, which asks for the same name (equal serial numbers?"
        " select by usb.port)"
    )


def test_a_device_with_several_names_is_told_with_all_of_them(
    capsys: Capture, tmp_path: Path, testbed: Callable[[str], Path]
) -> None:
    lanes = "".join(
        f"  - name: example.com/{lane}\n    match: [{{path: /dev/dri/renderD*}}]\n"
        f"    id: {lane}-$(device.name)\n    replicas: 2\n    exclusive: false\n"
        for lane in ("video", "compute")
    )
    said = first_line(capsys, tmp_path, testbed("gpu"), lanes, "/dev/dri/renderD128")
    assert said == (
        "/dev/dri/renderD128 is offered: it is video-renderD128 of example.com/video and"
        " compute-renderD128 of example.com/compute"
    )
