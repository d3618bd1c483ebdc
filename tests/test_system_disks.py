"""A disk that the running system is on is hardly meant to be offered: whoever looks is warned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.errors import HostError
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.printing import shortened
from genericdp.template import MAX_TEXT
from tests.devices.known import Known
from tests.devices.making import decide, node
from tests.devices.making import resource as made
from tests.fixtures.make_tree import Tree
from tests.test_scsi_nodes import Machine
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


def test_mounts_that_cannot_be_read_may_be_on_any_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = disks(tmp_path / "host")
    tree.write("proc/self/mountinfo", ROOT * 20_000)
    tree.write("proc/swaps", "/dev/sda3 partition 8 0 -2\n")
    tree.node("null", "1:3", at="virtual/mem")
    entries = resource("example.com/disks", "/dev/sd*", "/dev/null")
    file = tree.write("../config.yaml", config(entries))
    assert main(["discover", "--config", str(file), "--root", str(tree.folder)]) == 0
    err = capsys.readouterr().err
    assert warned(err) == on("swap", "sda", "sda3")
    why = "/proc/self/mountinfo: it has more than 1024 KiB"
    unknown = [line for line in err.splitlines() if "may have" in line]
    assert unknown == [
        f"warning: example.com/disks: device {name}: the system may have something ({why})"
        f" on /dev/{name}: exclude it"
        for name in ("sda1", "sda2", "sdb", "sdb1")
    ]


@pytest.mark.parametrize("error", [MemoryError(), HostError("odd"), ValueError("x" * 1000)])
def test_whatever_fails_there_costs_no_more_than_the_warning(error: Exception) -> None:
    class Failing(Known):
        def text(self, path: str, *, limit: int = MAX_TEXT) -> str | None:
            if path == "/proc/self/mountinfo":
                raise error
            return Known.text(self, path, limit=limit)

    found = [node("/dev/sda", (8, 0), block=True), node("/dev/gpu0", (195, 0))]
    wanted = [made("disk", "/dev/sda"), made("gpu", "/dev/gpu0")]
    lists = decide(wanted, found, facts=Failing())
    disk, gpu = lists["example.com/disk"], lists["example.com/gpu"]
    assert [*disk.devices, *gpu.devices] == ["sda", "gpu0"]
    assert gpu.warnings == {}
    why = f"the system may have something ({shortened(repr(error))}) on /dev/sda: exclude it"
    assert disk.warnings == {"sda": why}


CONTROLLER = "pci0000:00/0000:00:1d.0/nvme/nvme0"
PATH = "pci0000:00/0000:00:1e.0/nvme/nvme1"
MULTIPATH = "virtual/nvme-subsystem/nvme-subsys1"


@pytest.mark.parametrize(
    ("mounted", "expected"),
    [
        ("8:1", {"sda", "sda1", "sg0", "bsg/0:0:0:0"}),
        ("8:16", {"sdb", "sg1", "bsg/1:0:0:0"}),
        ("259:0", {"nvme0n1", "nvme0"}),
        ("259:1", {"nvme1n1", "nvme1"}),
    ],
)
def test_other_nodes_of_a_disk_are_warned_of_too(
    mounted: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node of SCSI, or an NVMe controller, reads and writes the disk as its own node does."""
    tree = Machine(tmp_path / "host")
    for i, disk in enumerate(("sda", "sdb")):
        names = (f"block/{disk}", f"scsi_generic/sg{i}", f"bsg/{i}:0:0:0")
        numbers = (f"8:{16 * i}", f"21:{i}", f"250:{i}")
        tree.scsi(
            f"pci0000:00/0000:00:17.0/ata{i}", f"{i}:0:0:0", *zip(names[:3], numbers, strict=True)
        )
    sda = "pci0000:00/0000:00:17.0/ata0/host0/target0:0:0/0:0:0:0/block/sda"
    tree.device(f"{sda}/sda1", "block", "partition", node="sda1", number="8:1")
    for path, controller in ((CONTROLLER, "nvme0"), (PATH, "nvme1")):
        tree.device(path, "nvme", node=controller, number=f"241:{controller[-1]}")
    tree.device(f"{CONTROLLER}/nvme0n1", "block", "disk", node="nvme0n1", number="259:0")
    tree.device(MULTIPATH, "nvme-subsystem")
    tree.link(f"sys/devices/{MULTIPATH}/nvme1", f"../../../{PATH}")
    tree.device(f"{MULTIPATH}/nvme1n1", "block", "disk", node="nvme1n1", number="259:1")
    tree.write("proc/self/mountinfo", f"27 1 {mounted} / / rw - ext4 /dev/root rw\n")
    every = resource("example.com/disks", "/dev/s*", "/dev/nvme*", "/dev/bsg/*")
    file = tree.write("../config.yaml", config(every))
    assert main(["discover", "--config", str(file), "--root", str(tree.folder)]) == 0
    said = warned(capsys.readouterr().err)
    assert {one.partition("/dev/")[2] for one in said} == expected


async def test_many_disks_are_one_line_and_so_is_the_end_of_it(world: World) -> None:
    tree = disks(world.host.folder)
    tree.write("proc/self/mountinfo", ROOT * 20_000)
    tree.node("sdc", "8:32", at="virtual/block", block=True)
    async with world.serving(DISKS) as daemon:
        why = "the system may have something (/proc/self/mountinfo: it has more than 1024 KiB)"
        line = await daemon.log.says(" devices should not be on offer: ")
        assert line == (
            "warning example.com/disks: 10 devices should not be on offer: dm-0, dm-1, sda, sda1,"
            f" sda2 and 5 more (dm-0: {why} on /dev/dm-0: exclude it)"
        )
        tree.write("proc/self/mountinfo", ROOT)
        tree.node("sdd", "8:48", at="virtual/block", block=True)
        await daemon.log.says("6 devices are no longer warned about: sda1, ")
        await daemon.log.says(
            "device sda should not be on offer: the system has / on /dev/sda: exclude it"
        )


async def test_the_daemon_logs_it_once_while_it_is_offered(world: World) -> None:
    tree = disks(world.host.folder)
    tree.write("proc/self/mountinfo", ROOT)
    said = "warning example.com/disks: device sda should not be on offer: the system has / on /dev"
    async with world.serving(resource("example.com/disks", "/dev/sda", "/dev/sdb")) as daemon:
        await daemon.log.says(said)
        (world.host.folder / "dev/sdb").unlink()
        await world.listed("example.com/disks", "sda")
        assert daemon.log.count("the system has") == 1
        await daemon.takes(resource("example.com/disks", "/dev/sda[0-9]"))
        await world.listed("example.com/disks", "sda1", "sda2", "sda3")
        await daemon.log.says("device sda2 should not be on offer: the system has / on /dev/sda2")
        await daemon.takes(resource("example.com/disks", "/dev/sda"))
        await daemon.log.says(said, times=2)
        assert daemon.log.count("the system has") == 3


def test_on_this_machine_the_mounts_are_those_of_the_process() -> None:
    mounts = HostCache(Root(Path("/"))).text("/proc/self/mountinfo", limit=1 << 20)
    assert mounts == Path("/proc/self/mountinfo").read_text().strip()
