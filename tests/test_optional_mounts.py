"""Mounts with ``optional: true``: over time, and what a container sees of the host."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc
import pytest
from genericdp.cli import main
from genericdp.host.root import seeing_host

from tests.hanging import hanging_mount
from tests.polling import ask_until
from tests.test_unreadable import forbidden
from tests.world import config, resource

if TYPE_CHECKING:
    from tests.world import World

NAME = "example.com/r"


def mounting(*paths: str, **keys: object) -> dict[str, object]:
    """Return a resource with these optional mounts."""
    mounts = [
        {"hostPath": path, "containerPath": f"/in{i}", "optional": True}
        for i, path in enumerate(paths)
    ]
    return resource(NAME, "/dev/ttyUSB0", inject={"mounts": mounts}, **keys)


async def given(world: World, count: int) -> None:
    """Wait until a container is given this many mounts."""

    async def mounts() -> int:
        try:
            answer = await world.allocated(NAME, ["ttyUSB0"])
        except grpc.aio.AioRpcError:
            return -1
        return len(answer.container_responses[0].mounts)

    await ask_until(mounts, lambda found: found == count)


def test_a_mount_in_a_directory_that_cannot_be_read_is_given_and_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.host.plug("ttyUSB0")
    world.host.write("/opt/driver/lib/libx.so", "")
    paths = ["/opt/driver/lib", "/opt/driver/none"]
    file = world.host.directory / "config.yaml"
    file.write_text(config(mounting(*paths)))
    options = ["--config", str(file), "--root", str(world.host.directory), "-o", "json"]
    with forbidden(world.host.directory / "opt/driver"):
        main(["discover", *options])
        (found,) = json.loads(capsys.readouterr().out)["resources"]
        main(["allocate", f"{NAME}=1", *options])
        mounts = json.loads(capsys.readouterr().out)[NAME]["mounts"]
    assert found["unseenMounts"] == [mount["hostPath"] for mount in mounts] == paths


async def test_a_mount_that_comes_and_goes_is_followed(world: World) -> None:
    directory = world.host.directory / "opt/driver"
    directory.parent.mkdir()
    world.host.plug("ttyUSB0")
    async with world.serving(mounting("/opt/driver")) as daemon:
        await world.listed(NAME, "ttyUSB0")
        await given(world, 0)
        directory.mkdir()
        await given(world, 1)
        directory.rmdir()
        await given(world, 0)
        await daemon.offers(NAME, ttyUSB0="")


@pytest.mark.slow
async def test_a_mount_that_hangs_is_left_out_until_it_answers(world: World) -> None:
    """No container could start with it, and the kubelet would wait for each Allocate."""
    world.host.plug("ttyUSB0")
    with ExitStack() as stack:
        stack.enter_context(hanging_mount(world.host.directory / "mnt"))
        async with world.serving(mounting("/mnt")) as daemon:
            assert (await world.container(r=1)).mounts == ()
            await daemon.offers(NAME, ttyUSB0="")
            stack.close()
            await given(world, 1)


@pytest.mark.slow
async def test_a_mount_that_begins_to_hang_fails_one_allocate_at_most(world: World) -> None:
    (world.host.directory / "mnt").mkdir()
    world.host.plug("ttyUSB0")
    async with world.serving(mounting("/mnt", replicas=2)) as daemon:
        assert (await world.container(r=1)).mounts
        with hanging_mount(world.host.directory / "mnt"):
            assert "reading the nodes of ttyUSB0 timed out" in await world.refusal("q", r=1)
            await given(world, 0)
            await daemon.offers(NAME, ttyUSB0="")


POD = "/var/lib/kubelet/pods/5c1e7a2e-8a57-4d27-9d2c-0f2ab55b1b7c"
CONTAINERD = f"""
1029 812 0:310 / / rw,relatime master:405 - overlay overlay rw,lowerdir=/x,upperdir=/y
1030 1029 0:320 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1031 1029 0:5 / /dev rw,nosuid - devtmpfs devtmpfs rw,size=16384k,mode=755
1032 1031 0:322 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=5,mode=620
1033 1031 0:290 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k
1034 1029 0:21 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
1035 1034 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw
1036 1031 8:1 {POD}/containers/x/37d0 /dev/termination-log rw,relatime - ext4 /dev/sda1 rw
1037 1029 8:1 {POD}/etc-hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw
1038 1029 8:1 /opt/driver /opt/driver ro,relatime - ext4 /dev/sda1 rw
1039 1029 0:23 /udev /run/udev ro,nosuid,nodev - tmpfs tmpfs rw,size=3278k,mode=755
1040 1029 8:1 {POD}/volumes/kubernetes.io~empty-dir/tmp /tmp rw,relatime - ext4 /dev/sda1 rw
1041 1029 8:1 {POD}/volumes/kubernetes.io~empty-dir/t /opt/tools rw,relatime - ext4 /dev/sda1 rw
1042 1029 0:301 / /opt/memory rw,relatime - tmpfs tmpfs rw,size=65861652k
1043 1029 0:280 / /run/secrets/kubernetes.io/serviceaccount ro,relatime - tmpfs tmpfs rw
1044 1029 0:281 /..2026_11_23_08_00_00.1/a /etc/genericdp/a.yaml ro - tmpfs tmpfs rw
1045 1029 8:1 {POD}/volume-subpaths/b/c/0 /srv/b ro,relatime - ext4 /dev/sda1 rw
1046 1029 8:32 / /data rw,relatime - ext4 /dev/sdc rw
1047 1029 8:1 / /host ro,relatime - ext4 /dev/sda1 rw
1048 1029 8:1 /home/bin/nvidia /usr/local/nvidia ro,relatime - ext4 /dev/sda1 rw
1049 1029 0:5 /dri /host/dev/dri rw,nosuid - devtmpfs devtmpfs rw,mode=755
1050 1030 0:320 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw
1051 1030 0:323 / /proc/acpi ro,relatime - tmpfs tmpfs ro
1052 1030 0:5 /null /proc/kcore rw,nosuid - devtmpfs devtmpfs rw,mode=755
1053 1038 8:1 {POD}/volumes/kubernetes.io~empty-dir/c /opt/driver/cache rw - ext4 /dev/sda1 rw
"""
CRIO = """
2201 2100 0:410 / / rw,relatime - overlay overlay rw,lowerdir=/x
2202 2201 0:411 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
2203 2202 0:5 /fuse /dev/fuse rw,nosuid - devtmpfs devtmpfs rw,mode=755
2204 2201 0:25 /containers/storage/c/userdata/hostname /etc/hostname rw - tmpfs t rw
2205 2201 0:25 /containers/storage/c/userdata/run/secrets /run/secrets rw - tmpfs t rw
2206 2201 253:3 /lib/kubelet/device-plugins /var/lib/kubelet/device-plugins rw - xfs /dev/dm-3 rw
2207 2201 253:4 / /opt/partition ro - xfs /dev/dm-4 rw
2208 2201 0:25 /udev /run/udev ro,nosuid,nodev - tmpfs tmpfs rw,mode=755
"""
DOCKER = """
640 590 0:58 / / rw,relatime - overlay overlay rw,lowerdir=/x
641 640 0:61 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
642 640 259:2 /var/lib/docker/containers/3f0c/hostname /etc/hostname rw - ext4 /dev/nvme0n1p2 rw
643 640 259:2 /var/lib/docker/volumes/tools/_data /opt/tools rw - ext4 /dev/nvme0n1p2 rw
644 640 259:2 /srv/models /srv/models ro - ext4 /dev/nvme0n1p2 rw
645 640 0:22 /devices /sys/devices rw,nosuid - sysfs sysfs rw
646 640 259:2 /opt/a\\040b /opt/a\\040b ro - ext4 /dev/nvme0n1p2 rw
"""
PODMAN = """
811 700 0:70 / / rw,relatime - fuse.fuse-overlayfs fuse-overlayfs rw,user_id=0
812 811 0:71 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k
813 811 0:24 /containers/storage/c/userdata/.containerenv /run/.containerenv rw - tmpfs tmpfs rw
814 811 0:40 /@/opt/driver /opt/driver ro - btrfs /dev/sda2 rw,subvol=/@
815 811 0:40 /home/u/models /home/u/models ro - btrfs /dev/sda2 rw,subvol=/home
816 811 0:24 / /run/tools rw - tmpfs tmpfs rw
"""


def parsed(lines: str) -> list[tuple[str, str, str]]:
    """Return root, mount point and type of the filesystem of lines of /proc/self/mountinfo."""
    split = [line.replace("\\040", " ").split(" - ") for line in lines.split("\n") if line]
    fields = [(line.split()[:5], kind.split()[0]) for line, kind in split]
    return [(root, point, kind) for (*_, root, point), kind in fields]


@pytest.mark.parametrize(
    ("lines", "seen", "not_seen"),
    [
        (
            CONTAINERD,
            "/dev/x /dev/snd/seq /sys/module/x /proc/driver/x /proc/bus/x /opt/driver /opt/driver/x"
            " /run/udev/data/x",
            "/ /x /opt /opt/x /opt/drivers /tmp/x /opt/tools/x /opt/memory/x /run/secrets/x /run/x"
            " /run/secrets/kubernetes.io/serviceaccount/token /etc/genericdp/a.yaml /srv/b /data/x"
            " /host/x /usr/local/nvidia/lib /host/dev/dri/card0 /dev/shm/x /dev/pts/1 /etc/hosts"
            " /sys/fs/cgroup/x /proc/acpi/x /proc/kcore /dev/termination-log /opt/driver/cache/x",
        ),
        (
            CRIO,
            "/dev/fuse /var/lib/kubelet/device-plugins/x.sock /run/udev/data",
            "/dev/x /etc/hostname /run/secrets/x /var/lib/kubelet/x /opt/partition/x",
        ),
        (DOCKER, "/srv/models/x /sys/devices/x", "/dev/x /etc/hostname /opt/tools/x /sys/x /srv/x"),
        # The subvolume of a root filesystem may be any directory of the host.
        (PODMAN, "/home/u/models/x", "/opt/driver/x /run/.containerenv /run/tools/x /dev/x"),
    ],
)
def test_a_container_sees_of_the_host_what_is_surely_mounted_from_the_same_path(
    lines: str, seen: str, not_seen: str
) -> None:
    sees = seeing_host(parsed(lines))
    assert [path for path in seen.split() if not sees(path)] == []
    assert [path for path in not_seen.split() if sees(path)] == []


ROOT, IMAGE = ("/", "/", "ext4"), ("/", "/", "overlay")
OPT, HOSTNAME = ("/opt/driver", "/opt/driver", "ext4"), ("/x", "/etc/hostname", "ext4")
EMPTY = ("/empty-dir/o", "/opt", "ext4")


@pytest.mark.parametrize(
    ("mounts", "seen"),
    [
        # A machine, whose root is a filesystem of its own.
        ([ROOT, OPT, ("/", "/proc", "proc")], {"/opt/driver/x", "/opt/x"}),
        ([("/@", "/", "btrfs"), EMPTY], {"/opt/driver/x", "/opt/x"}),
        # Containers: by the image's layers, or by what runtimes mount into all of them.
        ([IMAGE, OPT], {"/opt/driver/x"}),
        ([("/", "/", "fuse.fuse-overlayfs"), OPT], {"/opt/driver/x"}),
        ([("/snapshots/7", "/", "btrfs"), HOSTNAME, OPT], {"/opt/driver/x"}),
        ([ROOT, ("/", "/dev/termination-log", "ext4")], set()),
        # What is mounted last is on top.
        ([ROOT, IMAGE], set()),
        ([IMAGE, ROOT], {"/opt/driver/x", "/opt/x"}),
        ([IMAGE, EMPTY, OPT], {"/opt/driver/x"}),
        ([IMAGE, OPT, EMPTY], set()),
        ([IMAGE, OPT, ("/empty-dir/d", "/opt/driver", "ext4")], set()),
        # /proc cannot be read, or the root is not a mount.
        ([], set()),
        ([OPT], {"/opt/driver/x"}),
    ],
)
def test_only_a_container_sees_less_than_everything(
    mounts: list[tuple[str, str, str]], seen: set[str]
) -> None:
    sees = seeing_host(mounts)
    assert {path for path in ("/opt/driver/x", "/opt/x") if sees(path)} == seen
