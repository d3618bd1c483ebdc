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
    tree.write("sys/bus/usb/drivers/usb/unbind", "")
    return tree


def test_devices_are_copied_with_their_texts_and_links(tree: Tree) -> None:
    tree.write(f"{USB}/serial", "A50285BI\n")
    found = copy_of(tree).entries
    assert found[f"{USB}/serial"].content == b"A50285BI\n"
    assert found[f"{USB}/driver"].target.endswith("drivers/usb")
    assert found["sys/bus/usb/devices/1-1"].kind is Kind.LINK
    assert found["sys/bus/usb/drivers/usb/1-1"].kind is Kind.LINK
    assert "sys/bus/usb/drivers/usb/unbind" not in found


def test_what_a_link_leads_to_is_there_though_empty(tree: Tree) -> None:
    tree.link(f"{USB}/module", "../../../../../module/usbcore")
    tree.write("sys/module/usbcore/parameters/key", "")
    found = copy_of(tree).entries
    assert found["sys/module/usbcore"].kind is Kind.FOLDER
    assert not any(path.startswith("sys/module/usbcore/") for path in found)


@pytest.mark.parametrize(
    ("name", "text"),
    [("config", "x"), ("big", "x" * 4097), ("binary", "\0"), ("power/control", "on")],
)
def test_what_is_no_small_text_is_left_out(name: str, text: str, tree: Tree) -> None:
    tree.write(f"{USB}/{name}", text)
    assert f"{USB}/{name}" not in copy_of(tree).entries


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


def test_what_not_everybody_may_read_is_left_out_even_by_root(tree: Tree) -> None:
    tree.write(f"{USB}/idVendor", "0403\n").chmod(0o440)
    assert f"{USB}/idVendor" not in copy_of(tree).entries


def test_a_device_whose_uevent_cannot_be_read_is_there_all_the_same(tree: Tree) -> None:
    tree.write("sys/devices/virtual/misc/odd/uevent", "x").chmod(0o200)
    assert copy_of(tree).entries["sys/devices/virtual/misc/odd/uevent"].content == b""


def test_processors_and_memory_are_left_out_but_numa_nodes_are_not(tree: Tree) -> None:
    for name in ("cpu/cpu0", "memory/memory1", "node/node0"):
        tree.write(f"sys/devices/system/{name}/uevent", "")
    tree.link("sys/bus/cpu/devices/cpu0", "../../../devices/system/cpu/cpu0")
    found = copy_of(tree).entries
    assert "sys/devices/system/node/node0/uevent" in found
    assert not any("cpu0" in path or "memory1" in path for path in found)


def test_the_members_of_an_iommu_group_are_copied(tree: Tree) -> None:
    tree.link(f"{USB}/iommu_group", "../../../../../kernel/iommu_groups/7")
    tree.link("sys/kernel/iommu_groups/7/devices/1-1", f"../../../../../{USB}")
    tree.write("sys/kernel/iommu_groups/7/type", "DMA\n")
    found = copy_of(tree).entries
    assert found["sys/kernel/iommu_groups/7/devices/1-1"].kind is Kind.LINK
    assert found["sys/kernel/iommu_groups/7/type"].content == b"DMA\n"


def test_records_of_udev_are_copied_as_they_are(tree: Tree) -> None:
    tree.write("run/udev/data/+usb:1-1", "E:ID_MODEL=\xff\n")
    tree.write("run/udev/data/.#half", "E:")
    found = copy_of(tree).entries
    assert found["run/udev/data/+usb:1-1"].content == "E:ID_MODEL=\xff\n".encode()
    assert "run/udev/data/.#half" not in found


def test_a_record_that_not_everybody_may_read_is_left_out(tree: Tree) -> None:
    tree.write("run/udev/data/b8:1", "E:ID_X=1\n").chmod(0o600)
    assert "run/udev/data/b8:1" not in copy_of(tree).entries


def test_neither_proc_nor_a_content_of_dev_is_copied(tree: Tree) -> None:
    tree.node("disk", "8:0", block=True)
    tree.write("dev/disk", "secret")
    tree.write("proc/driver/x", "secret")
    tree.write("etc/passwd", "secret")
    found = copy_of(tree).entries
    assert found["dev/disk"].content == b""
    assert not any(b"secret" in one.content for one in found.values())


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
