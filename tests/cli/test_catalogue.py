"""``genericdp hardware``: the catalogue, exactly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.fixtures.make_tree import Tree
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path

ALL = """\
PCI function 0000:00:14.0: vendor "8086", device a36d, class "0c0330", driver xhci_hcd, \
function physical
  - {pci: {vendor: "8086", device: a36d}}  # 0000:00:14.0, pci, driver xhci_hcd, needs inject

USB device usb1, xHCI Host Controller: vendor "1d6b", product "0002", serial "0000:00:14.0", \
class "09"
  - {usb: {vendor: "1d6b", product: "0002"}}  # /dev/bus/usb/001/001, usb, usb_device, driver usb

USB device 1-3, candleLight USB to CAN adapter: vendor "1d50", product "606f", \
serial "004D00323536510620353437", class "00"
  - {usb: {vendor: "1d50", product: "606f"}}  # /dev/bus/usb/001/009, usb, usb_device, driver usb
  - {net: {linkType: can}, hardware: {usb: {vendor: "1d50", product: "606f"}}}  # can0, net, \
driver gs_usb, needs inject

Without hardware: block
  - {path: "/dev/loop[0-9]*"}  # /dev/loop0 … /dev/loop2 (3), block

Without hardware: net
  - {net: {name: vcan0}}  # vcan0, net, needs inject

Other files
  - {path: /dev/mapper/control}  # /dev/mapper/control

9 candidates; each line that begins with '-' is an
entry for match. Facts of a device: genericdp explain, or -o json here.
What needs inject has no device file: say there what a container gets instead.
"""


@pytest.fixture
def can(tmp_path: Path) -> Path:
    """A CAN adapter, three devices of one kind without hardware, and a file of unknown make."""
    folder = tmp_path / "can"
    loading.build(loading.path_of("can"), folder)
    tree = Tree(folder)
    for number in range(3):
        tree.node(f"loop{number}", f"7:{number}", at="virtual/block", block=True)
        tree.link(f"sys/devices/virtual/block/loop{number}/subsystem", "../../../../class/block")
        tree.link(f"sys/class/block/loop{number}", f"../../devices/virtual/block/loop{number}")
    tree.node("mapper/control", "10:236")
    tree.remove("sys/dev/char/10:236")
    tree.write("sys/dev/char/10:236/uevent", "MAJOR=10\nMINOR=236\nDEVNAME=mapper/control\n")
    return folder


def test_it_is_a_catalogue_of_what_a_config_could_name(
    can: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hardware", "--root", str(can)]) == 0
    assert capsys.readouterr().out == ALL


def test_as_json_it_has_every_candidate_with_all_of_its_facts(
    can: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hardware", "--root", str(can), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    paths = [one["path"] for one in found]
    assert len(paths) == 9
    assert [path for path in paths if "loop" in path] == [f"/dev/loop{i}" for i in range(3)]
    (adapter,) = (one for one in found if one["name"] == "can0")
    assert adapter["net"] == {"name": "can0", "linkType": "can", "driver": "gs_usb"}
    assert adapter["usb"]["port"] == "1-3"
    assert adapter["model"] == "candleLight_USB_to_CAN_adapter"
    assert adapter["properties"]["ID_BUS"] == "usb"
    assert (adapter["deviceFile"], adapter["tags"]) == (False, ["systemd"])
    assert adapter["selector"].startswith("{net: {linkType: can}")


def test_discover_all_is_another_name_for_it(can: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["discover", "--all", "--root", str(can)]) == 0
    assert capsys.readouterr().out == ALL


def test_each_piece_of_hardware_has_its_name_and_what_it_holds_only_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loading.build(loading.path_of("nvme"), tmp_path)
    assert main(["hardware", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "# /dev/nvme0, Samsung SSD 970 EVO Plus 1TB, nvme, driver nvme" in printed
    loading.build(loading.path_of("serial-adapters"), tmp_path / "usb")
    assert main(["hardware", "--root", str(tmp_path / "usb")]) == 0
    printed = capsys.readouterr().out
    assert "USB device 1-1.3, FT230X Basic UART: vendor " in printed
    assert "# /dev/ttyUSB2, tty, driver ftdi_sio, " in printed


def test_this_very_machine_has_a_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware"]) == 0
    assert "/dev/null" in capsys.readouterr().out


def test_a_config_beside_all_is_refused_but_one_of_the_environment_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "sys/devices").mkdir(parents=True)
    argv = ["discover", "--all", f"--root={tmp_path}"]
    assert main([*argv, "--config=any.yaml"]) == 2
    assert "--config is not used with it" in capsys.readouterr().err
    monkeypatch.setenv("GENERICDP_CONFIG", "any.yaml")
    assert main(argv) == 0


def test_what_the_asking_process_has_open_is_no_fact_of_the_machine(
    can: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(can)
    for name in ("stdin", "stdout", "stderr"):
        tree.link(f"dev/{name}", "loop1")
    assert main(["hardware", "--root", str(can)]) == 0
    assert capsys.readouterr().out == ALL
