"""Nodes that SCSI devices have come with their own device, not with its whole controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.fixtures.make_tree import Tree
from tests.printed import resources_in

if TYPE_CHECKING:
    from pathlib import Path

AHCI = "pci0000:00/0000:00:17.0"
USB = "pci0000:00/0000:00:14.0/usb1/1-2"
DISK, DRIVE = "block/sda", "block/sr0"


class Machine(Tree):
    """A host of which each SCSI device may have nodes of several subsystems."""

    def device(
        self, path: str, subsystem: str, devtype: str = "", *, node: str = "", number: str = ""
    ) -> None:
        """Add a folder of sysfs, with a device node of a number if it has one."""
        folder = f"sys/devices/{path}"
        up = "../" * (path.count("/") + 2)
        lines = f"DEVTYPE={devtype}\n" if devtype else ""
        if node:
            major, _, minor = number.partition(":")
            lines += f"MAJOR={major}\nMINOR={minor}\nDEVNAME={node}\n"
            kind = "block" if subsystem == "block" else "char"
            self.link(f"sys/dev/{kind}/{number}", f"../../devices/{path}")
            self.write(f"dev/{node}", "")
        self.write(f"{folder}/uevent", lines)
        place = f"bus/{subsystem}" if subsystem in {"pci", "usb", "scsi"} else f"class/{subsystem}"
        self.link(f"{folder}/subsystem", f"{up}{place}")
        if subsystem in {"pci", "usb", "scsi"}:
            entry, back = f"sys/{place}/devices/{path.rpartition('/')[2]}", "../../.."
        else:
            entry, back = f"sys/{place}/{path.rpartition('/')[2]}", "../.."
        self.link(entry, f"{back}/devices/{path}")

    def scsi(self, below: str, address: str, *nodes: tuple[str, str]) -> None:
        """Add a SCSI device; each node is ``subsystem/name`` and a number."""
        host, channel, target, _ = address.split(":")
        on = f"{below}/host{host}/target{host}:{channel}:{target}"
        self.device(f"{below}/host{host}", "scsi", "scsi_host")
        self.device(on, "scsi", "scsi_target")
        self.device(f"{on}/{address}", "scsi", "scsi_device")
        for name, number in nodes:
            subsystem, _, kernel = name.partition("/")
            devtype = "disk" if subsystem == "block" else ""
            file = f"bsg/{kernel}" if subsystem == "bsg" else kernel
            path = f"{on}/{address}/{name}"
            self.device(path, subsystem, devtype, node=file, number=number)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two disks and an optical drive on AHCI, a USB stick of two units, a tape and its changer."""
    tree = Machine(tmp_path / "root")
    tree.device(AHCI, "pci")
    for i, (port, disk) in enumerate([("ata1", "sda"), ("ata2", "sdb"), ("ata3", "sr0")]):
        address = f"{i}:0:0:0"
        tree.scsi(
            f"{AHCI}/{port}",
            address,
            (f"block/{disk}", f"{11 if disk == 'sr0' else 8}:{16 * i}"),
            (f"scsi_generic/sg{i}", f"21:{i}"),
            (f"bsg/{address}", f"250:{i}"),
        )
    on = f"{AHCI}/ata1/host0/target0:0:0/0:0:0:0/block/sda"
    tree.device(f"{on}/sda1", "block", "partition", node="sda1", number="8:1")
    tree.device("pci0000:00/0000:00:14.0", "pci")
    tree.device(USB, "usb", "usb_device", node="bus/usb/001/002", number="189:1")
    tree.write(f"sys/devices/{USB}/idVendor", "0781\n")
    tree.device(f"{USB}/1-2:1.0", "usb", "usb_interface")
    for unit in (0, 1):
        tree.scsi(
            f"{USB}/1-2:1.0",
            f"6:0:0:{unit}",
            (f"block/sd{'cd'[unit]}", f"8:{32 + 16 * unit}"),
            (f"scsi_generic/sg{3 + unit}", f"21:{3 + unit}"),
        )
    tape = "pci0000:00/0000:00:1c.0"
    tree.device(tape, "pci")
    for target, names in enumerate([("scsi_tape/st0", "scsi_tape/nst0"), ("scsi_changer/sch0",)]):
        numbers = [f"{9 + 77 * target}:{128 * i}" for i in range(len(names))]
        sg = (f"scsi_generic/sg{5 + target}", f"21:{5 + target}")
        tree.scsi(tape, f"7:0:{target}:0", *zip(names, numbers, strict=True), sg)
    return tree.folder


def devices(
    machine: Path, capsys: pytest.CaptureFixture[str], match: str, *subsystems: str
) -> dict[str, list[str]]:
    """The nodes of each device, by its id."""
    entries = ", ".join(f"{{subsystem: {one}}}" for one in subsystems)
    config = machine.parent / "config.yaml"
    config.write_text(
        f"{HEAD}  - name: example.com/x\n    match: [{{{match}}}]\n"
        f"    inject: {{devices: [{entries}]}}\n"
    )
    assert main(["discover", "--config", str(config), "--root", str(machine), "-o", "json"]) == 0
    found = resources_in(capsys.readouterr().out)["example.com/x"]
    assert not found["notOffered"], found
    return {
        one["id"]: [node.removeprefix("/dev/") for node in one["nodes"]] for one in found["devices"]
    }


@pytest.mark.parametrize(
    ("match", "subsystem", "nodes"),
    [
        ("path: /dev/sr0", "scsi_generic", ["sg2"]),
        ("path: /dev/sr0", "bsg", ["bsg/2:0:0:0"]),
        ("path: /dev/sr0", "block", ["sr0"]),
        ("path: /dev/sda", "scsi_generic", ["sg0"]),
        ("path: /dev/sda", "block", ["sda", "sda1"]),
        ("path: /dev/sda1", "block", ["sda1"]),
        ("path: /dev/sg1", "block", ["sdb"]),
        ("path: /dev/sdc", "scsi_generic", ["sg3"]),
        ("path: /dev/sdd", "scsi_generic", ["sg4"]),
        ("path: /dev/nst0", "scsi_tape", ["nst0", "st0"]),
        ("path: /dev/nst0", "scsi_generic", ["sg5"]),
        ("path: /dev/sch0", "scsi_generic", ["sg6"]),
        ("path: /dev/sg6", "scsi_changer", ["sch0"]),
        # What is no part of a SCSI device has the nodes of all that are behind it, as ever.
        ('usb: {vendor: "0781"}', "scsi_generic", ["sg3", "sg4"]),
        ('pci: {address: "0000:00:17.0"}', "scsi_generic", ["sg0", "sg1", "sg2"]),
    ],
)
def test_a_subsystem_of_scsi_gives_the_nodes_of_the_device_itself(
    machine: Path,
    capsys: pytest.CaptureFixture[str],
    match: str,
    subsystem: str,
    nodes: list[str],
) -> None:
    found = devices(machine, capsys, match, subsystem)
    assert list(found.values()) == [nodes]


def test_each_drive_of_a_controller_comes_with_its_own_generic_node(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drives = 'udev: {subsystem: block, devtype: disk, name: "s[dr][0ab]"}'
    found = devices(machine, capsys, drives, "block", "scsi_generic")
    assert found == {
        "0000:00:17.0-block": ["sda", "sda1", "sg0"],
        "0000:00:17.0-block-ata2": ["sdb", "sg1"],
        "0000:00:17.0-block-ata3": ["sr0", "sg2"],
    }


def test_a_scsi_device_that_cannot_be_read_is_not_taken_for_its_controller(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uevent = machine / f"sys/devices/{AHCI}/ata3/host2/target2:0:0/2:0:0:0/uevent"
    uevent.unlink()
    uevent.mkdir()  # as good as a lacking permission, for root too
    found = devices(machine, capsys, "path: /dev/sr0", "scsi_generic")
    assert list(found.values()) == [[]]
