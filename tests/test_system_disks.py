"""A disk that the running system is on is hardly meant to be offered: whoever looks is warned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from tests.fixtures.make_tree import Tree
from tests.world import config, resource

if TYPE_CHECKING:
    from tests.world import World

DISKS = resource("example.com/disks", "/dev/sd*", "/dev/dm-*", "/dev/zram*")
LAYERS = {"dm-0": "sda2", "dm-1": "dm-0"}
"""An encrypted partition, and a logical volume in it."""
ROOT = "27 1 253:1 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw\n"
POD = (
    "600 500 0:90 / / rw,relatime - overlay overlay rw,lowerdir=/dev/sda1\n"
    "601 600 0:5 / /dev ro - devtmpfs udev rw\n"
    "602 600 8:%d /var/lib/kubelet/pods/u/etc-hosts /etc/hosts rw - ext4 /dev/root rw\n"
)


def disks(folder: Path) -> Tree:
    """A machine with two disks: the system is in a volume on one, the other one has data."""
    tree = Tree(folder)
    numbers = {"sda": "8:0", "sdb": "8:16", "zram0": "252:0", "dm-0": "253:0", "dm-1": "253:1"}
    partitions = {"sda1": "8:1", "sda2": "8:2", "sda3": "8:3", "sdb1": "8:17"}
    for name, number in {**numbers, **partitions}.items():
        at = f"virtual/block/{name[:3]}" if name in partitions else "virtual/block"
        tree.node(name, number, at=at, block=True)
        tree.link(f"sys/devices/{at}/{name}/subsystem", "../../../../class/block")
    for name, below in LAYERS.items():
        at = (
            f"virtual/block/{below[:3]}/{below}"
            if below in partitions
            else f"virtual/block/{below}"
        )
        tree.link(f"sys/devices/virtual/block/{name}/slaves/{below}", f"../../../../{at}")
    return tree


def warned(err: str) -> set[str]:
    """Return of which devices, with what the system has on them."""
    said = (line.partition(": the system has ") for line in err.splitlines())
    return {
        f"{head.rpartition(' ')[2]} {rest.removesuffix(': exclude it')}"
        for head, _, rest in said
        if head.startswith("warning: example.com/disks: device ") and rest
    }


def on(use: str, *names: str) -> set[str]:
    return {f"{name} {use} on /dev/{name}" for name in names}


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        (ROOT, on("/", "sda", "sda2", "dm-0", "dm-1")),
        (f"{ROOT}28 27 8:1 / /boot rw - ext4 /dev/sda1 rw\n",
         on("/", "sda", "sda2", "dm-0", "dm-1") | on("/boot", "sda1")),
        ("29 27 8:17 / /boot/efi rw - vfat /dev/sdb1 rw\n", on("/boot/efi", "sdb", "sdb1")),
        ("29 27 8:16 / /var rw - xfs /dev/sdb rw\n", on("/var", "sdb")),
        ("27 1 0:30 /root / rw - btrfs /dev/sdb1 rw,subvol=/root\n", on("/", "sdb", "sdb1")),
        (POD % 17, on("/etc/hosts", "sdb", "sdb1")),
        ("40 27 8:17 / /data rw - ext4 /dev/sdb1 rw\n", set()),
        ("41 27 8:17 / /var/lib/kubelet/pods/u/volumes/v/mount rw - ext4 /dev/sdb1 rw\n", set()),
        ("27 1 99999:99999999999999999 / / rw - ext4 /dev/none rw\n", set()),
        ("27 1 ../..:1 / / rw - ext4 /dev/../sda rw\n\n / - \nx\n", set()),
        (None, set()),
    ],
)  # fmt: skip
def test_what_the_system_has_mounted_is_warned_of(
    mounts: str | None, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = disks(tmp_path / "host")
    if mounts is not None:
        tree.write("proc/self/mountinfo", mounts)
    file = tree.write("../config.yaml", config(DISKS))
    where = ["--config", str(file), "--root", str(tree.folder)]
    assert main(["discover", *where]) == 0
    assert warned(capsys.readouterr().err) == expected
    assert main(["explain", *where, "/dev/sda"]) == 0
    assert warned(capsys.readouterr().err) == expected


def test_swap_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = disks(tmp_path / "host")
    used = "/dev/zram0 partition 8 0 100\n/dev/sda3 partition 8 0 -2\n/swapfile file 8 0 -3\n"
    tree.write(
        "proc/swaps", f"Filename Type Size Used Priority\n{used}/dev/none partition 1 0 -4\n"
    )
    file = tree.write("../config.yaml", config(DISKS))
    assert main(["discover", "--config", str(file), "--root", str(tree.folder)]) == 0
    assert warned(capsys.readouterr().err) == on("swap", "zram0", "sda", "sda3")


async def test_the_daemon_logs_it_once_while_it_is_offered(world: World) -> None:
    tree = disks(world.host.folder)
    tree.write("proc/self/mountinfo", ROOT)
    said = "warning example.com/disks: device sda: the system has / on /dev/sda: exclude it"
    async with world.serving(resource("example.com/disks", "/dev/sda", "/dev/sdb")) as daemon:
        await daemon.log.says(said)
        (world.host.folder / "dev/sdb").unlink()
        await world.listed("example.com/disks", "sda")
        assert daemon.log.count("the system has") == 1
        await daemon.takes(resource("example.com/disks", "/dev/sda[0-9]"))
        await world.listed("example.com/disks", "sda1", "sda2", "sda3")
        await daemon.log.says("device sda2: the system has / on /dev/sda2")
        await daemon.takes(resource("example.com/disks", "/dev/sda"))
        await daemon.log.says(said, times=2)
        assert daemon.log.count("the system has") == 3


def test_on_this_machine_the_mounts_are_those_of_the_process() -> None:
    mounts = HostCache(Root(Path("/"))).text("/proc/self/mountinfo", limit=1 << 20)
    assert mounts == Path("/proc/self/mountinfo").read_text().strip()
