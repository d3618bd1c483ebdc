from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from genericdp.snapshot.archive import Kind
from genericdp.snapshot.copy import Copy, copied

from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USB = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1"
DRIVERS = "sys/bus/usb/drivers"
GROUP = "sys/kernel/iommu_groups/7/devices/1-1"


def read_it(path: str, read: Callable[[], bytes]) -> bytes:
    del path
    return read()


def copy_of(tree: Tree) -> Copy:
    return copied(tree.root, Copy(), guard=read_it)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path / "machine")
    tree.write(f"{USB}/uevent", "DEVTYPE=usb_device\n")
    tree.link(f"{USB}/subsystem", "../../../../../bus/usb")
    tree.link(f"{USB}/driver", "../../../../../bus/usb/drivers/usb")
    tree.link("sys/bus/usb/devices/1-1", f"../../../../{USB}")
    tree.link("sys/bus/usb/drivers/usb/1-1", f"../../../../../{USB}")
    tree.link(f"{USB}/module", "../../../../../module/usbcore")
    tree.link(f"{USB}/iommu_group", "../../../../../kernel/iommu_groups/7")
    tree.link(GROUP, f"../../../../../{USB}")
    return tree


@pytest.mark.parametrize(
    ("path", "text", "mode", "is_copied"),
    [
        pytest.param(f"{USB}/serial", "A50285BI\n", 0o644, True, id="a string of a device"),
        pytest.param(f"{USB}/config", "x", 0o644, False, id="a configuration"),
        pytest.param(f"{USB}/big", "x" * 4097, 0o644, False, id="a long text"),
        pytest.param(f"{USB}/binary", "\0", 0o644, False, id="what is not a string"),
        pytest.param(f"{USB}/power/control", "on", 0o644, False, id="a control of power"),
        pytest.param(f"{USB}/idVendor", "0403\n", 0o440, False, id="what not all may read"),
        pytest.param(f"{DRIVERS}/usb/unbind", "", 0o644, False, id="a control of a driver"),
        pytest.param("sys/module/usbcore/parameters/key", "", 0o644, False, id="below a link"),
        pytest.param("sys/devices/system/node/node0/uevent", "", 0o644, True, id="a NUMA node"),
        pytest.param("sys/devices/system/cpu/cpu0/uevent", "", 0o644, False, id="a processor"),
        pytest.param("sys/devices/system/memory/memory1/uevent", "", 0o644, False, id="memory"),
        pytest.param("sys/kernel/iommu_groups/7/type", "DMA\n", 0o644, True, id="of a group"),
        pytest.param("run/udev/data/+usb:1-1", "E:ID_MODEL=\xff\n", 0o644, True, id="a record"),
        pytest.param("run/udev/data/.#half", "E:", 0o644, False, id="a half record"),
        pytest.param("run/udev/data/b8:1", "E:ID_X=1\n", 0o600, False, id="a private record"),
        pytest.param("proc/driver/x", "x", 0o644, False, id="a file of proc"),
        pytest.param("etc/passwd", "x", 0o644, False, id="a file of the machine"),
    ],
)
def test_of_files_is_copied_what_tells_of_devices_and_everybody_may_read(
    path: str, text: str, mode: int, is_copied: bool, tree: Tree
) -> None:
    tree.write(path, text).chmod(mode)
    found = copy_of(tree).entries.get(path)
    assert (found is not None) is is_copied
    assert found is None or found.content == text.encode()


def test_links_are_copied_and_what_they_lead_to_is_there_though_empty(tree: Tree) -> None:
    tree.link("sys/bus/cpu/devices/cpu0", "../../../devices/system/cpu/cpu0")
    tree.write("sys/devices/system/cpu/cpu0/uevent", "")
    tree.write("sys/module/usbcore/parameters/key", "")
    found = copy_of(tree).entries
    links = (f"{USB}/driver", "sys/bus/usb/devices/1-1", f"{DRIVERS}/usb/1-1", GROUP)
    assert {found[path].kind for path in links} == {Kind.LINK}
    assert found[f"{USB}/driver"].target.endswith("drivers/usb")
    assert found["sys/module/usbcore"].kind is Kind.DIRECTORY
    assert not any("cpu0" in path for path in found)


COPIED = {
    "pci": ("vendor", "numa_node", "sriov_numvfs", "current_link_speed", "ports/1", "queue/depth"),
    "usb": ("serial", "bInterfaceNumber"),
    "net": ("address",),
    "hwmon": ("name",),
    "tpm": ("tpm_version_major",),
    "dmi": ("product_name",),
    "input": ("keyboard",),
}
"""What says what a device is, by subsystem."""
SKIPPED = {
    "pci": ("config", "rom", "resource", "resource0_wc", "pp_dpm_sclk", "power/x", "msi_irqs/x"),
    "usb": ("urbnum",),
    "net": ("statistics/x",),
    "infiniband": ("hw_counters/x", "gids/0"),
    "w1": ("w1_slave",),
    "hwmon": ("temp1_input",),
    "tpm": ("pubek", "pcr-sha256/0"),
    "enclosure": ("fault",),
    "iscsi_session": ("password_in",),
    "thunderbolt": ("key",),
    "block": ("backing_file",),
    "dmi": ("product_serial", "board_asset_tag"),
}
"""What acts on the hardware, counts, or is private."""


def test_what_says_what_a_device_is_is_copied_and_what_acts_counts_or_is_private_is_not(
    tree: Tree,
) -> None:
    for names in (COPIED, SKIPPED):
        for subsystem, attributes in names.items():
            device = f"sys/devices/{subsystem}"
            tree.write(f"{device}/uevent", "")
            tree.link(f"{device}/subsystem", f"../../class/{subsystem}")
            for name in attributes:
                tree.write(f"{device}/{name}", "1\n")
    found = copy_of(tree).entries
    for names, are_copied in ((COPIED, True), (SKIPPED, False)):
        for subsystem, attributes in names.items():
            assert f"sys/devices/{subsystem}/uevent" in found
            there = {name: f"sys/devices/{subsystem}/{name}" in found for name in attributes}
            assert there == dict.fromkeys(attributes, are_copied)


def test_a_device_whose_uevent_cannot_be_read_is_there_all_the_same(tree: Tree) -> None:
    tree.write("sys/devices/virtual/misc/odd/uevent", "x").chmod(0o200)
    assert copy_of(tree).entries["sys/devices/virtual/misc/odd/uevent"].content == b""


def test_no_content_of_a_device_node_is_copied(tree: Tree) -> None:
    tree.node("disk", "8:0", block=True).write_text("secret")
    assert copy_of(tree).entries["dev/disk"].content == b""


def test_what_may_not_be_read_is_told(tree: Tree) -> None:
    def refuse(path: str, read: Callable[[], bytes]) -> bytes:
        if path.endswith("serial"):
            raise PermissionError(13, "Permission denied")
        if path.endswith("product"):
            raise OSError(19, os.strerror(19))  # it has none now: as good as not there
        return read()

    tree.write(f"{USB}/serial", "x")
    tree.write(f"{USB}/product", "x")
    copy = copied(tree.root, Copy(), guard=refuse)
    assert copy.left_out == {"permission denied": 1}
    assert copy.examples == {"permission denied": f"/{USB}/serial"}


def test_a_device_may_vanish_while_it_is_copied(tree: Tree) -> None:
    """As interfaces of pods do: with ``one.stat()`` outside of ``_add_file`` it raises."""
    veth = tree.write("sys/devices/virtual/net/veth1/uevent", "INTERFACE=veth1\n").parent
    for name in ("address", "ifindex", "mtu"):
        tree.write(f"sys/devices/virtual/net/veth1/{name}", "1\n")

    def read_and_unplug(path: str, read: Callable[[], bytes]) -> bytes:
        text = read()
        if "veth1" in path:
            shutil.rmtree(veth, ignore_errors=True)
        return text

    copy = copied(tree.root, Copy(), guard=read_and_unplug)
    assert f"{USB}/uevent" in copy.entries


def test_no_link_is_followed(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/uevent").write_text("secret")
    tree.link("sys/devices/away", str(tmp_path / "outside"))
    tree.link("sys/devices/circle", ".")
    found = copy_of(tree).entries
    assert not any("away" in path for path in found)
