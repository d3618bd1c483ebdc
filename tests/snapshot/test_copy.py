"""A snapshot copies parts of sysfs and /dev, also of a machine that is damaged."""

from __future__ import annotations

import io
import os
import shutil
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from genericdp.host.root import Root
from genericdp.host.sysfs import device_names
from genericdp.snapshot.archive import Kind, read, unpack, write
from genericdp.snapshot.copy import Copy, copied
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.cases.machine import Machine as Tree
from tests.testbeds import loading
from tests.testbeds.damaging import DAMAGES, damage, mend, paths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

pytestmark = pytest.mark.slow

USB = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1"
DRIVERS = "sys/bus/usb/drivers"
GROUP = "sys/kernel/iommu_groups/7/devices/1-1"


def read_it(path: str, read: Callable[[], bytes]) -> bytes:
    del path
    return read()


def copy_of(root: Root) -> Copy:
    return copied(root, Copy(), guard=read_it)


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
        pytest.param(f"{USB}/big", "x" * 4097, 0o644, False, id="a long text"),
        pytest.param(f"{USB}/idVendor", "0403\n", 0o440, False, id="what not all may read"),
        pytest.param(f"{DRIVERS}/usb/unbind", "", 0o644, False, id="a control of a driver"),
        pytest.param("sys/module/usbcore/parameters/key", "", 0o644, False, id="below a link"),
        pytest.param("sys/devices/system/node/node0/uevent", "", 0o644, True, id="a NUMA node"),
        pytest.param("sys/devices/x/uevent", "", 0o200, True, id="what cannot be read"),
        pytest.param("sys/devices/system/cpu/cpu0/uevent", "", 0o644, False, id="a processor"),
        pytest.param("sys/kernel/iommu_groups/7/type", "DMA\n", 0o644, True, id="of a group"),
        pytest.param("run/udev/data/+usb:1-1", "E:ID_MODEL=\xff\n", 0o644, True, id="a record"),
        pytest.param("run/udev/data/.#half", "E:", 0o644, False, id="a half record"),
        pytest.param("run/udev/data/b8:1", "E:ID_X=1\n", 0o600, False, id="a private record"),
        pytest.param("proc/driver/x", "x", 0o644, False, id="a file of proc"),
    ],
)
def test_of_files_is_copied_what_tells_of_devices_and_everybody_may_read(
    path: str, text: str, mode: int, is_copied: bool, tree: Tree
) -> None:
    tree.write(path, text).chmod(mode)
    found = copy_of(tree.root).entries.get(path)
    assert (found is not None) is is_copied
    assert found is None or found.content == text.encode()


def test_links_are_copied_and_what_they_lead_to_is_there_though_empty(tree: Tree) -> None:
    tree.link("sys/bus/cpu/devices/cpu0", "../../../devices/system/cpu/cpu0")
    tree.write("sys/devices/system/cpu/cpu0/uevent", "")
    tree.write("sys/module/usbcore/parameters/key", "")
    found = copy_of(tree.root).entries
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
    for subsystem in {*COPIED, *SKIPPED}:
        device = f"sys/devices/{subsystem}"
        tree.link(f"{device}/subsystem", f"../../class/{subsystem}")
        for name in ("uevent", *COPIED.get(subsystem, ()), *SKIPPED.get(subsystem, ())):
            tree.write(f"{device}/{name}", "1\n")
    found = copy_of(tree.root).entries
    for subsystem in {*COPIED, *SKIPPED}:
        start = f"sys/devices/{subsystem}/"
        files = {path.removeprefix(start) for path in found if path.startswith(start)}
        assert files >= {"uevent", *COPIED.get(subsystem, ())}
        assert not files & {*SKIPPED.get(subsystem, ())}


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
    found = copy_of(tree.root).entries
    assert not any("away" in path for path in found)


class Machine(Root):
    """A copied tree that passes for a running machine, some files of which are nodes."""

    def __init__(self, directory: Path, nodes: Mapping[str, tuple[int, int]]) -> None:
        super().__init__(directory)
        self._nodes = nodes

    @property
    def is_machine(self) -> bool:
        return True

    def lstat(self, path: str) -> os.stat_result:
        found = os.lstat(self.real(path))
        if path not in self._nodes:
            return found
        number = os.makedev(*self._nodes[path])
        mode = stat.S_IFCHR | 0o600
        return os.stat_result((mode, *found[1:]), {"st_rdev": number})


@pytest.fixture
def dev(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def in_dev(copy: Copy) -> set[str]:
    return {path for path in copy.entries if path.startswith("dev/")}


def test_a_node_that_sysfs_does_not_know_is_a_node_in_the_copy(dev: Tree, tmp_path: Path) -> None:
    dev.write("dev/nvidia0", "")
    dev.write("dev/also", "")
    copy = copy_of(Machine(dev.directory, {"/dev/nvidia0": (195, 0), "/dev/also": (195, 0)}))
    assert not copy.left_out
    packed = io.BytesIO()
    write(packed, {}, copy.in_order())
    packed.seek(0)
    (tmp_path / "copy").mkdir()
    unpack(packed, tmp_path / "copy")
    names = device_names(Root(tmp_path / "copy"))
    assert names == {"nvidia0": ("char", (195, 0)), "also": ("char", (195, 0))}


def test_another_name_of_a_node_leaves_the_device_its_own(dev: Tree) -> None:
    dev.node("fuse", "10:229")
    dev.write("dev/mine", "")
    copy = copy_of(Machine(dev.directory, {"/dev/fuse": (10, 229), "/dev/mine": (10, 229)}))
    uevent = copy.entries["sys/devices/virtual/misc/fuse/uevent"]
    assert uevent.content == b"DEVNAME=mine\nMAJOR=10\nMINOR=229\nDEVNAME=fuse\n"


def test_what_sysfs_calls_otherwise_is_left_out(dev: Tree) -> None:
    dev.node("fuse", "10:229")
    dev.node("null", "1:3")
    copy = copy_of(Machine(dev.directory, {"/dev/null": (1, 5)}))  # and fuse is a plain file here
    assert in_dev(copy) == set()
    assert copy.left_out == {"not what sysfs calls by that name": 2}


def test_links_stay_links_of_dev_and_become_relative(dev: Tree) -> None:
    """But for one that others can turn: in the copy everything has one owner."""
    dev.write("dev/ttyUSB0", "")
    dev.link("dev/serial/by-id/a", "../../ttyUSB0")
    dev.link("dev/serial/absolute", "/dev/ttyUSB0")
    dev.link("dev/dangling", "nothing")
    dev.link("dev/stdin", "/proc/self/fd/0")
    dev.link("dev/log", "/run/systemd/journal/dev-log")
    dev.link("dev/open/link", "../ttyUSB0")
    (dev.directory / "dev/open").chmod(0o777)
    copy = copy_of(Machine(dev.directory, {}))
    found = copy.entries.items()
    assert {path: match.target for path, match in found if match.kind is Kind.LINK} == {
        "dev/serial/by-id/a": "../../ttyUSB0",
        "dev/serial/absolute": "../ttyUSB0",
        "dev/dangling": "nothing",
    }
    assert ["can change" in reason for reason in copy.left_out] == [True]


def test_what_belongs_to_sessions_is_left_out(dev: Tree) -> None:
    dev.write("dev/pts/0", "")
    dev.write("dev/shm/secret", "")
    assert in_dev(copy_of(Machine(dev.directory, {}))) == {"dev/pts", "dev/shm"}


def test_a_link_may_vanish_while_it_is_copied(dev: Tree) -> None:
    class Unplugged(Root):
        def read_link(self, path: str) -> str:
            os.unlink(self.real(path))
            return super().read_link(path)

    dev.link("dev/disk", "sda")
    assert in_dev(copy_of(Unplugged(dev.directory))) == set()


PATHS = [path for path in paths_of("can") if path != "/dev"]
KINDS = sorted(DAMAGES)


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(KINDS)), max_size=6))
@example([("/sys/class", "a link out of the copy")])
@example([("/sys/class/net", "a link out of the copy")])
@example([("/sys/devices", "a link out of the copy")])
@example([("/run/udev/data", "a link out of the copy")])
@example([("/sys", "gone")])
@settings(max_examples=examples(15))
def test_whatever_is_damaged_the_rest_is_copied(damages: list[tuple[str, str]]) -> None:
    """And what is copied is a snapshot, with nothing from outside the copy."""
    with TemporaryDirectory() as directory:
        loading.build(loading.path_of("can"), Path(directory))
        for path, kind in damages:
            damage(Path(directory), path, kind)
        copy = copy_of(Root(Path(directory)))
        mend(Path(directory))
    entries = copy.in_order()
    assert not [entry.path for entry in entries if "/tty" in entry.path or "/mem/" in entry.path]
    packed = io.BytesIO()
    write(packed, {}, entries)
    assert list(read(io.BytesIO(packed.getvalue()))) == entries
    with TemporaryDirectory() as directory:
        unpack(io.BytesIO(packed.getvalue()), Path(directory))
