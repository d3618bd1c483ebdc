"""``inject.devices: [{subsystem: …}]`` gives a device its own nodes, never those of a sibling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.fixtures.make_tree import Tree
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PORT = "pci0000:00/0000:03:00.0"
SF1, SF2 = f"{PORT}/mlx5_core.sf.1", f"{PORT}/mlx5_core.sf.2"
HBA = "pci0000:00/0000:05:00.0"
NVME = "pci0000:00/0000:06:00.0/nvme/nvme0"
SHARED_NVME = "virtual/nvme-subsystem/nvme-subsys1"
GPU = "pci0000:00/0000:07:00.0"
CAMERA = "pci0000:00/0000:00:14.0/usb1/1-8"
BUS = "platform/fe804000.i2c/i2c-1"


class Machine(Tree):
    """A machine of which each device belongs to a subsystem."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._minor = 0

    def device(self, path: str, subsystem: str, devtype: str = "", *, node: str = "") -> None:
        """Add a device, with a device node where ``node`` is the name of one."""
        directory, lines = f"sys/devices/{path}", f"DEVTYPE={devtype}\n" if devtype else ""
        if node:
            self._minor += 1
            number, kind = f"240:{self._minor}", "block" if subsystem == "block" else "char"
            lines += f"MAJOR=240\nMINOR={self._minor}\nDEVNAME={node}\n"
            self.link(f"sys/dev/{kind}/{number}", f"../../devices/{path}")
            self.write(f"dev/{node}", "")
        self.write(f"{directory}/uevent", lines)
        is_bus = subsystem in {"auxiliary", "i2c", "mdev", "pci", "platform", "scsi", "usb"}
        place = f"bus/{subsystem}" if is_bus else f"class/{subsystem}"
        self.link(f"{directory}/subsystem", f"{'../' * (path.count('/') + 2)}{place}")
        entries = f"sys/{place}/devices" if is_bus else f"sys/{place}"
        up = "../" * entries.count("/")
        self.link(f"{entries}/{path.rpartition('/')[2]}", f"{up}devices/{path}")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def given(
    machine: Machine, capsys: pytest.CaptureFixture[str], match: str, *entries: str
) -> Mapping[str, object]:
    """The nodes of each device by the name of what was matched, or why it is Unhealthy."""
    config = machine.folder.parent / "config.yaml"
    config.write_text(
        f"{HEAD}  - name: example.com/x\n    match: [{{{match}}}]\n    id: $(device.name)\n"
        f"    inject: {{devices: [{', '.join(f'{{{entry}}}' for entry in entries)}]}}\n"
    )
    arguments = ["discover", "--config", str(config), "--root", str(machine.folder), "-o", "json"]
    assert main(arguments) == 0
    found = resources_in(capsys.readouterr().out)["example.com/x"]
    assert not found["notOffered"], found
    return {device["id"]: device["reason"] or device["nodes"] for device in found["devices"]}


@pytest.fixture
def adapter(machine: Machine) -> Machine:
    """A port with two subfunctions; each of the three has its own nodes."""
    machine.device(PORT, "pci")
    for number, place in enumerate((PORT, SF1, SF2)):
        if number:
            machine.device(place, "auxiliary")
        machine.device(f"{place}/net/eth{number}", "net")
        machine.device(f"{place}/infiniband/mlx5_{number}", "infiniband")
        verbs = f"uverbs{number}"
        machine.device(f"{place}/infiniband_verbs/{verbs}", "infiniband_verbs", node=verbs)
    return machine


@pytest.mark.parametrize(
    ("match", "names"),
    [
        ("udev: {subsystem: infiniband}", ["mlx5_0", "mlx5_1", "mlx5_2"]),
        ("net: {}", ["eth0", "eth1", "eth2"]),
    ],
)
def test_a_port_and_its_subfunctions_get_their_own_verbs(
    adapter: Machine, capsys: pytest.CaptureFixture[str], match: str, names: list[str]
) -> None:
    found = given(adapter, capsys, match, "subsystem: infiniband_verbs")
    assert found == {name: [f"/dev/uverbs{number}"] for number, name in enumerate(names)}


def test_the_function_of_a_port_does_not_come_with_the_nodes_of_its_subfunctions(
    adapter: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    found = given(adapter, capsys, "pci: {}", "subsystem: infiniband_verbs")
    assert found == {"0000:03:00.0": ["/dev/uverbs0"]}
    found = given(adapter, capsys, "udev: {subsystem: auxiliary}", "subsystem: infiniband_verbs")
    assert found == {"mlx5_core.sf.1": ["/dev/uverbs1"], "mlx5_core.sf.2": ["/dev/uverbs2"]}


def test_a_subfunction_without_nodes_gets_none_of_its_port_or_sibling(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.device(PORT, "pci")
    machine.device(f"{PORT}/infiniband_verbs/uverbs0", "infiniband_verbs", node="uverbs0")
    for place in (SF1, SF2):
        machine.device(place, "auxiliary")
    machine.device(f"{SF2}/infiniband_verbs/uverbs2", "infiniband_verbs", node="uverbs2")
    found = given(machine, capsys, "udev: {subsystem: auxiliary}", "subsystem: infiniband_verbs")
    assert found == {
        "mlx5_core.sf.1": "there is no infiniband_verbs node on the same hardware",
        "mlx5_core.sf.2": ["/dev/uverbs2"],
    }
    optional = "subsystem: infiniband_verbs, optional: true"
    found = given(machine, capsys, "udev: {subsystem: auxiliary}", optional, "path: /dev/uverbs0")
    assert found["mlx5_core.sf.1"] == ["/dev/uverbs0"]


def test_other_parts_of_a_function_come_with_it(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """An auxiliary device that is no subfunction is a part of its GPU."""
    machine.device(GPU, "pci")
    machine.device(f"{GPU}/drm/card1", "drm", "drm_minor", node="dri/card1")
    machine.device(f"{GPU}/drm/renderD129", "drm", "drm_minor", node="dri/renderD129")
    machine.device(f"{GPU}/i915.mei-gsc.768", "auxiliary")
    machine.device(f"{GPU}/i915.mei-gsc.768/mei/mei1", "mei", node="mei1")
    machine.device(f"{GPU}/i2c-4", "i2c")
    machine.device(f"{GPU}/i2c-4/i2c-dev/i2c-4", "i2c-dev", node="i2c-4")
    entries = ("subsystem: drm", "subsystem: mei", "subsystem: i2c-dev")
    everything = ["/dev/dri/card1", "/dev/dri/renderD129", "/dev/mei1", "/dev/i2c-4"]
    assert given(machine, capsys, "pci: {}", *entries) == {"0000:07:00.0": everything}
    found = given(machine, capsys, "path: /dev/dri/renderD129", *entries)
    assert found == {"renderD129": everything}
    found = given(machine, capsys, "path: /dev/dri/renderD129", 'subsystem: drm, name: "card*"')
    assert found == {"renderD129": ["/dev/dri/card1"]}


def test_a_mediated_device_and_its_gpu_keep_to_themselves(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.device(GPU, "pci")
    machine.device(f"{GPU}/drm/card1", "drm", "drm_minor", node="dri/card1")
    for number, name in enumerate(("aaaa", "bbbb")):
        machine.device(f"{GPU}/{name}", "mdev")
        vfio = f"{GPU}/{name}/vfio-dev/vfio{number}"
        machine.device(vfio, "vfio-dev", node=f"vfio/devices/vfio{number}")
    entry = "subsystem: vfio-dev, optional: true"
    assert given(machine, capsys, "udev: {subsystem: mdev}", entry) == {
        "aaaa": ["/dev/vfio/devices/vfio0"],
        "bbbb": ["/dev/vfio/devices/vfio1"],
    }
    found = given(machine, capsys, "path: /dev/dri/card1", "path: $(device.path)", entry)
    assert found == {"card1": ["/dev/dri/card1"]}


def test_each_disk_behind_an_adapter_gets_its_own_generic_nodes(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.device(HBA, "pci")
    machine.device(f"{HBA}/host0", "scsi", "scsi_host")
    for number in (0, 1):
        target = f"{HBA}/host0/target0:0:{number}"
        machine.device(target, "scsi", "scsi_target")
        disk = f"{target}/0:0:{number}:0"
        machine.device(disk, "scsi", "scsi_device")
        name = f"sd{'ab'[number]}"
        machine.device(f"{disk}/block/{name}", "block", "disk", node=name)
        machine.device(f"{disk}/scsi_generic/sg{number}", "scsi_generic", node=f"sg{number}")
        machine.device(f"{disk}/bsg/0:0:{number}:0", "bsg", node=f"bsg/0:0:{number}:0")
    entries = ("subsystem: scsi_generic", "subsystem: bsg")
    assert given(machine, capsys, "path: /dev/sd*", *entries) == {
        "sda": ["/dev/sg0", "/dev/bsg/0:0:0:0"],
        "sdb": ["/dev/sg1", "/dev/bsg/0:0:1:0"],
    }
    assert given(machine, capsys, "pci: {}", "subsystem: scsi_generic") == {
        "0000:05:00.0": ["/dev/sg0", "/dev/sg1"]
    }


@pytest.mark.parametrize("place", [NVME, SHARED_NVME])
def test_each_namespace_gets_its_own_character_device_and_partitions(
    machine: Machine, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """With multipath a namespace sits below no controller."""
    if place == NVME:
        machine.device("pci0000:00/0000:06:00.0", "pci")
        machine.device(NVME, "nvme", node="nvme0")
    else:
        machine.device(SHARED_NVME, "nvme-subsystem")
    for number in (1, 2):
        disk = f"{place}/nvme0n{number}"
        machine.device(disk, "block", "disk", node=f"nvme0n{number}")
        machine.device(f"{disk}/nvme0n{number}p1", "block", "partition", node=f"nvme0n{number}p1")
        generic = f"{place}/ng0n{number}"
        machine.device(generic, "nvme-generic", node=f"ng0n{number}")
    disks = "path: /dev/nvme0n?"
    assert given(machine, capsys, disks, "subsystem: nvme-generic", "subsystem: block") == {
        f"nvme0n{number}": [
            f"/dev/ng0n{number}",
            f"/dev/nvme0n{number}",
            f"/dev/nvme0n{number}p1",
        ]
        for number in (1, 2)
    }
    assert given(machine, capsys, "path: /dev/ng0n2", "subsystem: block") == {
        "ng0n2": ["/dev/nvme0n2", "/dev/nvme0n2p1"]
    }
    assert given(machine, capsys, "path: /dev/nvme0n2p1", "subsystem: block") == {
        "nvme0n2p1": ["/dev/nvme0n2p1"]
    }
    if place == NVME:
        found = given(machine, capsys, "path: /dev/nvme0", 'subsystem: block, name: "nvme0n?"')
        assert found == {"nvme0": ["/dev/nvme0n1", "/dev/nvme0n2"]}


def test_all_interfaces_of_a_camera_are_one_device(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.device(CAMERA, "usb", "usb_device", node="bus/usb/001/004")
    for interface in (0, 2):
        machine.device(f"{CAMERA}/1-8:1.{interface}", "usb", "usb_interface")
    for number in (0, 1):
        video = f"{CAMERA}/1-8:1.0/video4linux/video{number}"
        machine.device(video, "video4linux", node=f"video{number}")
    machine.device(f"{CAMERA}/1-8:1.0/media0", "media", node="media0")
    machine.device(f"{CAMERA}/1-8:1.2/sound/card1", "sound")
    sound = f"{CAMERA}/1-8:1.2/sound/card1/controlC1"
    machine.device(sound, "sound", node="snd/controlC1")
    entries = ("subsystem: video4linux", "subsystem: media", "subsystem: sound")
    everything = ["/dev/video0", "/dev/video1", "/dev/media0", "/dev/snd/controlC1"]
    assert given(machine, capsys, "path: /dev/video0", *entries) == {"video0": everything}
    assert given(machine, capsys, "udev: {subsystem: usb, devtype: usb_device}", *entries) == {
        "1-8": everything
    }


def test_a_chip_on_a_bus_gets_nothing_of_the_chip_beside_it(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.device("platform/fe804000.i2c", "platform")
    machine.device(BUS, "i2c")
    machine.device(f"{BUS}/i2c-dev/i2c-1", "i2c-dev", node="i2c-1")
    for chip in ("1-0048", "1-0049"):
        machine.device(f"{BUS}/{chip}", "i2c")
    machine.device(f"{BUS}/1-0049/iio:device0", "iio", node="iio:device0")
    chips = 'udev: {subsystem: i2c, name: "1-00*"}'
    assert given(machine, capsys, chips, "subsystem: iio") == {
        "1-0048": "there is no iio node on the same hardware",
        "1-0049": ["/dev/iio:device0"],
    }
    bus = "path: /dev/i2c-1"
    assert given(machine, capsys, bus, "subsystem: i2c-dev") == {"i2c-1": ["/dev/i2c-1"]}
