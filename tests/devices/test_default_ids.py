"""The default IDs: they name hardware by its own facts, whatever else there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.devices import machines
from tests.devices.machines import Machine, Part
from tests.devices.offering import look, offers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.devices.machines import Hardware

NVME, GPU, CARD = "0000:01:00.0", "0000:06:00.0", "0000:3b:00.0"
UUID = machines.UUIDS[0]
SATA = machines.SataDisk(2, "naa.5000c5002")
VIRTUAL = machines.VirtualDisk(0, 2)
NAMESPACE = machines.Namespace(2)
SAS = machines.SasDisk(3)
EXPANDED = machines.SasDisk(3, expander="0x500304801")
EMMC = machines.MmcArea()
BRIDGE, ADAPTER = machines.UsbDevice("2-3", "B1"), machines.UsbDevice("1-1.4", "A1")
CAMERA, RECEIVER = machines.UsbDevice("1-2", "C1"), machines.UsbDevice("1-3")


@pytest.mark.parametrize(
    ("hardware", "label", "expected"),
    [
        (ADAPTER, "usb", "1-1.4"),
        (machines.SataDisk(1), "block", "0000:00:17.0-block"),
        (SATA, "block", "0000:00:17.0-block-ata2"),
        (SATA, "scsi_generic", "0000:00:17.0-scsi_generic-ata2"),
        (SATA, "bsg", "0000:00:17.0-bsg-ata2"),
        (machines.Partition(SATA, 1), "block", "0000:00:17.0-block-ata2-p1"),
        (machines.SasDisk(0), "block", "0000:02:00.0-block"),
        (SAS, "block", "0000:02:00.0-block-phy3"),
        (EXPANDED, "block", "0000:02:00.0-block-exp0x500304801-phy3"),
        (machines.VirtualDisk(), "block", "0000:00:05.0-block"),
        (VIRTUAL, "block", "0000:00:05.0-block-t2"),
        (machines.VirtualDisk(1, 2, 3), "block", "0000:00:05.0-block-ch1-t2-lun3"),
        (machines.Partition(VIRTUAL, 2), "block", "0000:00:05.0-block-t2-p2"),
        (machines.UsbDisk(BRIDGE), "block", "2-3:1.0-block"),
        (machines.UsbDisk(BRIDGE, 1), "block", "2-3:1.0-block-lun1"),
        (machines.Namespace(1), "block", f"{NVME}-block"),
        (NAMESPACE, "block", f"{NVME}-block-n2"),
        (NAMESPACE, "nvme-generic", f"{NVME}-nvme-generic-n2"),
        (machines.Partition(NAMESPACE, 1), "block", f"{NVME}-block-n2-p1"),
        (EMMC, "block", "fe340000.mmc-block"),
        (machines.Partition(EMMC, 1), "block", "fe340000.mmc-block-p1"),
        (machines.MmcArea("boot0"), "block", "fe340000.mmc-block-boot0"),
        (machines.MmcArea("rpmb"), "mmc_rpmb", "fe340000.mmc-mmc_rpmb"),
        (machines.Loop("loop3"), "block", "loop3"),
        (machines.Loop("zram0"), "block", "zram0"),
        (machines.SerialPort(ADAPTER), "tty", "1-1.4:1.0-tty"),
        (machines.SerialPort(ADAPTER, 1), "tty", "1-1.4:1.0-tty-port1"),
        (machines.PciSerialPort("0000:03:00.0"), "tty", "0000:03:00.0-tty"),
        (machines.PciSerialPort("0000:03:00.0", 3), "tty", "0000:03:00.0-tty-port3"),
        (machines.VideoNode(CAMERA), "video4linux", "1-2:1.0-video4linux"),
        (machines.VideoNode(CAMERA, 1), "video4linux", "1-2:1.0-video4linux-index1"),
        (machines.MediaNode(CAMERA), "media", "1-2:1.0-media"),
        (machines.HidDevice(RECEIVER), "input event", "1-3:1.0-input"),
        (machines.HidDevice(RECEIVER, kinds=("mouse",)), "input mouse", "1-3:1.0-input-mouse"),
        (machines.HidDevice(RECEIVER), "hidraw", "1-3:1.0-hidraw"),
        (machines.HidDevice(RECEIVER, 2), "input event", "1-3:1.0-input-2"),
        (machines.HidDevice(RECEIVER, 2, unique="4041"), "hidraw", "1-3:1.0-hidraw-2-4041"),
        (machines.Port("0000:04:00.0", mac="00:1b:21:00:00:01"), "net", "0000:04:00.0-net"),
        (machines.Port("0000:04:00.0", 1), "net", "0000:04:00.0-net-port1"),
        (machines.Port("0000:04:00.0", 1, is_old=True), "net", "0000:04:00.0-net-port1"),
        (machines.Port("0000:09:00.0", 2, "can"), "net", "0000:09:00.0-net-port2"),
        (machines.Port(CARD, represents="pf0vf1"), "net", f"{CARD}-net-pf0vf1"),
        (machines.RdmaFunction(CARD), "net", f"{CARD}-net"),
        (machines.RdmaFunction(CARD), "infiniband", f"{CARD}-infiniband"),
        (machines.RdmaFunction(CARD), "infiniband_verbs", f"{CARD}-infiniband_verbs"),
        (machines.RdmaFunction(CARD, 88), "net", f"{CARD}-net-sf88"),
        (machines.RdmaFunction(CARD, 88), "infiniband", f"{CARD}-infiniband-sf88"),
        (machines.RdmaFunction(CARD, 88), "infiniband_verbs", f"{CARD}-infiniband_verbs-sf88"),
        (machines.MediatedDevice(GPU, UUID), "mdev", f"{GPU}-mdev-{UUID}"),
        (machines.DrmNode(GPU), "drm card", f"{GPU}-drm"),
        (machines.DrmNode(GPU, "renderD"), "drm renderD", f"{GPU}-drm-renderD"),
        (machines.NpuNode("0000:0a:00.0"), "npu", "0000:0a:00.0-npu"),
        (machines.SoundNode(GPU), "sound", f"{GPU}-sound"),
        (machines.SoundNode(GPU, "pcmC*D0p"), "sound", f"{GPU}-sound-pcmD0p"),
        (machines.I2cAdapter(GPU), "i2c-dev", f"{GPU}-i2c-dev-i915_gmbus_dpa"),
        (machines.SpiDevice(), "spidev", "fe204000.spi-spidev"),
        (machines.SpiDevice(1), "spidev", "fe204000.spi-spidev-cs1"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_id_is_the_place_the_subsystem_and_what_tells_it_apart(
    hardware: Hardware, label: str, expected: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path / "machine")
    machine.plug(hardware)
    found = offers(look(machine), machine)
    assert [match for (_, part), match in found.items() if part == Part(hardware, label)] == [
        [expected]
    ]
