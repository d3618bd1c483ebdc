"""The hardware below a device, which the kernel may have put something virtual on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.closeness import NOWHERE, Spot
from genericdp.devices.placing import agreed, hardware_below, spot_of
from tests.devices.known import Known

if TYPE_CHECKING:
    from genericdp.devices.sysdevice import SysDevice

ONLINE = "/sys/devices/system/node/online"
VIRTUAL = "/sys/devices/virtual"
GROUPS = "/sys/kernel/iommu_groups"


def disk(known: Known, bus: str, numa: str) -> SysDevice:
    """A SCSI disk behind a controller of its own."""
    known.add(f"/sys/devices/pci0000:{bus}/0000:{bus}:02.0", "pci", attributes={"numa_node": numa})
    return known.add(f"/sys/devices/pci0000:{bus}/0000:{bus}:02.0/block/sd{bus}", "block")


def on_top(known: Known, name: str, *slaves: SysDevice) -> SysDevice:
    """A block device of the kernel's making that stands on others."""
    at = f"{VIRTUAL}/block/{name}"
    for slave in slaves:
        known.targets[f"{at}/slaves/{slave.name}"] = slave.syspath
    return known.add(at, "block")


def in_group(known: Known, group: str, function: SysDevice) -> None:
    known.targets[f"{GROUPS}/{group}/devices/{function.name}"] = function.syspath


@pytest.fixture
def known() -> Known:
    return Known(texts={ONLINE: "0-1"})


def test_what_sits_on_hardware_is_where_it_is(known: Known) -> None:
    one = disk(known, "00", "1")
    part = known.add(f"{one.syspath}/sd001", "block", "partition")
    assert spot_of([part], known) == Spot(syspaths=(part.syspath,), numa_nodes=(1,))


def test_layers_of_block_devices_are_looked_through(known: Known) -> None:
    """A volume on two arrays, one of which holds a partition of the other's disk."""
    far, near = disk(known, "80", "1"), disk(known, "00", "0")
    part = known.add(f"{near.syspath}/sd001", "block", "partition")
    mirror = on_top(known, "md0", near, far)
    volume = on_top(known, "dm-1", mirror, on_top(known, "md1", part))
    piece = known.add(f"{mirror.syspath}/md0p1", "block", "partition")
    assert [one.name for one in hardware_below(volume, known)] == ["sd00", "sd001", "sd80"]
    assert spot_of([piece], known) == Spot(syspaths=(near.syspath, far.syspath), numa_nodes=(0, 1))


def test_a_circle_of_layers_comes_to_an_end(known: Known) -> None:
    one = on_top(known, "dm-0")
    two = on_top(known, "dm-1", one)
    known.targets[f"{one.syspath}/slaves/dm-1"] = two.syspath
    assert hardware_below(one, known) == (one,)


def test_the_controllers_are_below_a_multipath_disk(known: Known) -> None:
    subsystem = known.add(f"{VIRTUAL}/nvme-subsystem/nvme-subsys0", "nvme-subsystem")
    head = known.add(f"{subsystem.syspath}/nvme0n1", "block")
    known.targets[head.syspath] = head.syspath
    for i in range(2):
        known.add(f"0000:0{i}:00.0", "pci", attributes={"numa_node": str(i)})
        controller = known.add(f"0000:0{i}:00.0/nvme/nvme{i}", "nvme")
        known.targets[f"{subsystem.syspath}/nvme{i}"] = controller.syspath
    part = known.add(f"{head.syspath}/nvme0n1p1", "block", "partition")
    assert [one.name for one in hardware_below(part, known)] == ["nvme0", "nvme1"]
    assert spot_of([head], known).numa_nodes == (0, 1)


@pytest.mark.parametrize("name", ["12", "noiommu-12"])
def test_the_functions_of_its_group_are_below_a_vfio_node(name: str, known: Known) -> None:
    """Without the bridge above them, which is nobody's device."""
    kinds = {"class": "0x060400"}, {"class": "0x030000"}, {"class": "0x040300"}
    for at, attributes in zip(("00:01.0", "01:00.0", "01:00.1"), kinds, strict=True):
        numa = {"numa_node": "1", **attributes}
        in_group(known, "12", known.add(f"0000:{at}", "pci", attributes=numa))
    node = known.add(f"{VIRTUAL}/vfio/{name}", "vfio")
    spot = spot_of([node], known)
    assert [one.rpartition("/")[2] for one in spot.syspaths] == ["0000:01:00.0", "0000:01:00.1"]
    assert spot.numa_nodes == (1,)


def test_what_stands_on_nothing_is_itself(known: Known) -> None:
    fuse = known.add(f"{VIRTUAL}/misc/fuse", "misc")
    assert spot_of([fuse], known) == Spot(syspaths=(fuse.syspath,))
    group = known.add(f"{VIRTUAL}/vfio/9", "vfio")
    assert hardware_below(group, known) == (group,), "a group that is being taken apart"
    assert spot_of([], known) == NOWHERE


@pytest.mark.parametrize("numa", ["-1", "7"])
def test_no_node_that_is_not_there_counts(numa: str, known: Known) -> None:
    """D10, LAW-8: -1 is none, and an offline node is none, beside one that is there."""
    volume = on_top(known, "dm-0", disk(known, "00", "0"), disk(known, "80", numa))
    assert spot_of([volume], known).numa_nodes == (0,)


def test_members_are_counted_once_and_close_by_what_all_agree_in(known: Known) -> None:
    one, two = disk(known, "00", "1"), disk(known, "80", "1")
    both = spot_of([one, two, one], known, agreed(["hive", "hive"]))
    assert both == Spot(syspaths=(one.syspath, two.syspath), numa_nodes=(1,), closeness="hive")
    assert spot_of([one], known, "").closeness is None
    assert agreed(["hive", "other"]) is None
    assert agreed(["hive", None]) is None
    assert agreed([]) is None
