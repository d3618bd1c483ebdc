"""Default IDs of all devices of all recorded machines, and of what only few machines have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.identity import default_name
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from tests.devices.known import Known
from tests.devices.making import decide, node, resource
from tests.hosts.hosts import all_hosts
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.devices.inventory import SysDevice

MACHINES: dict[str, Callable[[Path], Path]] = {
    **{f"example {host}": host.build for host in all_hosts()},
    **{name: lambda folder, name=name: built(name, folder) for name in loading.NAMES},  # type: ignore[misc]
}


def built(name: str, folder: Path) -> Path:
    loading.build(loading.path_of(name), folder)
    return folder


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_devices_of_a_subsystem_have_one_id(machine: str, tmp_path: Path) -> None:
    """Of two, only the first would be offered. A device with a node may be below one without."""
    host = HostCache(Root(MACHINES[machine](tmp_path)))
    found: dict[tuple[str, bool, str], list[str]] = {}
    for subsystem in host.subsystems():
        for device in host.members(subsystem):
            name = default_name(device, host)
            key = (subsystem, device.number is not None, device.name if name is None else name.text)
            found.setdefault(key, []).append(device.syspath)
    assert found
    assert [paths for paths in found.values() if len(paths) > 1] == []


def name_of(device: SysDevice, known: Known) -> tuple[str, bool]:
    """Return the default ID of a device, and whether it can change at boot."""
    name = default_name(device, known)
    assert name is not None
    return name.text, bool(name.weak)


@pytest.mark.parametrize("count", ["0001", "000D"])
def test_a_hid_device_is_not_called_after_how_many_there_were(count: str) -> None:
    known = Known()
    usb = "0000:00:14.0/usb1/1-2"
    known.usb(usb)
    known.interface(f"{usb}/1-2:1.0")
    first = {"HID_PHYS": "usb-0000:00:14.0-2/input0"}
    hid = known.add(f"{usb}/1-2:1.0/0003:046D:C077.{count}", "hid", properties=first)
    second = {"HID_PHYS": "usb-0000:00:14.0-2/input0:2", "HID_UNIQ": "4041"}
    behind = known.add(f"{hid.syspath}/0003:046D:4041.{count}", "hid", properties=second)
    assert name_of(hid, known) == ("1-2:1.0-hid", False)
    assert name_of(behind, known) == ("1-2:1.0-hid-2-4041", False)


@pytest.mark.parametrize("name", ["mlx5_0", "mlx5_7", "ibp11s0", "rocep11s0f0"])
def test_an_adapter_of_several_planes_has_a_device_for_its_management(name: str) -> None:
    """Which udev may rename, but not the device for management (smi1)."""
    known = Known()
    known.add("0000:0b:00.0", "pci")
    at = "0000:0b:00.0/infiniband"
    devices = [known.add(f"{at}/{its}", "infiniband") for its in (name, "smi1")]
    umads = [
        known.add(
            f"{at}_mad/umad{number}",
            "infiniband_mad",
            number=(231, number),
            attributes={"ibdev": ibdev, "port": port},
        )
        for number, (ibdev, port) in enumerate([(name, "1"), ("smi1", "1"), ("smi1", "2")])
    ]
    place = "0000:0b:00.0-infiniband"
    assert [name_of(one, known)[0] for one in devices] == [place, f"{place}-smi"]
    assert [name_of(one, known)[0] for one in umads] == [
        f"{place}_mad-umad",
        f"{place}_mad-umad-smi",
        f"{place}_mad-umad-smi-port2",
    ]


@pytest.mark.parametrize("count", [0, 3])
def test_parts_of_an_fpga_are_not_called_after_how_many_cards_there_are(count: int) -> None:
    known = Known()
    known.add("0000:b1:00.0", "pci")
    at = "0000:b1:00.0/fpga_region/region1"
    engine = known.add(f"{at}/dfl-fme.{count}", "platform", number=(240, count))
    ports = [
        known.add(
            f"{at}/dfl-port.{count + port}",
            "platform",
            number=(241, count + port),
            attributes={"id": str(port)},
        )
        for port in (0, 1)
    ]
    sensor = known.add(f"{engine.syspath}/hwmon/hwmon{count}", "hwmon", attributes={"name": "fme"})
    assert [name_of(one, known) for one in (engine, *ports)] == [
        ("0000:b1:00.0-platform-dfl-fme", False),
        ("0000:b1:00.0-platform-dfl-port", False),
        ("0000:b1:00.0-platform-dfl-port-port1", False),
    ]
    assert name_of(sensor, known) == (f"dfl-fme.{count}-hwmon-fme", True)


@pytest.mark.parametrize(
    ("path", "is_weak"),
    [
        ("platform/host6/session1/target6:0:0/6:0:0:1/block/sdb", True),
        ("css0/0.0.0150/block/dasda", True),
        ("vbd-51712/block/xvda", False),  # the name is that of the virtual machine's config
        ("virtual/block/loop3", False),
    ],
)
def test_the_letters_of_disks_count_them_as_numbers_do(path: str, is_weak: bool) -> None:
    name = path.rpartition("/")[2]
    known = Known()
    known.add(f"/sys/devices/{path}", "block", "disk", number=(8, 16))
    disk = node(f"/dev/{name}", (8, 16), syspath=f"/sys/devices/{path}", block=True)
    offered = decide([resource("disks", f"/dev/{name}")], [disk], facts=known)
    (device,) = (one.device for one in offered["example.com/disks"].devices.values())
    assert (device.id, bool(device.weak_id)) == (name, is_weak)
