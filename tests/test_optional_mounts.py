"""Mounts with ``optional: true``: over time, and what a container sees of the host."""

from __future__ import annotations

import json

import grpc
import pytest
from genericdp.cli import main
from genericdp.host.root import seeing_host

from tests.hanging import hanging_mount
from tests.polling import ask_until
from tests.resource_limits import forbidden
from tests.world import World, config, resource

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
    assert found_and_given(options, capsys) == ([], ["/opt/driver/lib"])
    with forbidden(world.host.directory / "opt/driver"):
        assert found_and_given(options, capsys) == (paths, paths)


def found_and_given(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[list[str], list[str]]:
    """Return the mounts that cannot be seen, and those that a container gets."""
    main(["discover", *options])
    (found,) = json.loads(capsys.readouterr().out)["resources"]
    main(["allocate", f"{NAME}=1", *options])
    mounts = json.loads(capsys.readouterr().out)[NAME]["mounts"]
    return found.get("unseenMounts", []), [mount["hostPath"] for mount in mounts]


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
async def test_a_mount_that_begins_to_hang_fails_one_allocate_and_is_left_out_until_it_answers(
    world: World,
) -> None:
    """No container could start with it, and the kubelet would wait for each Allocate."""
    (world.host.directory / "mnt").mkdir()
    world.host.plug("ttyUSB0")
    async with world.serving(mounting("/mnt", replicas=2)) as daemon:
        assert (await world.container(r=1)).mounts
        with hanging_mount(world.host.directory / "mnt"):
            assert "reading the nodes of ttyUSB0 timed out" in await world.refusal("q", r=1)
            await given(world, 0)
            await daemon.offers(NAME, ttyUSB0="")
        await given(world, 1)


# The mounts of recorded containers, each ROOT>MOUNT POINT>TYPE; POD is a directory of the kubelet.
CONTAINERD = """
/>/>overlay />/proc>proc />/dev>devtmpfs />/dev/pts>devpts />/dev/shm>tmpfs />/sys>sysfs
/>/sys/fs/cgroup>cgroup2 /POD/containers/x/37d0>/dev/termination-log>ext4
/POD/etc-hosts>/etc/hosts>ext4 /opt/driver>/opt/driver>ext4 /udev>/run/udev>tmpfs
/POD/volumes/kubernetes.io~empty-dir/tmp>/tmp>ext4
/POD/volumes/kubernetes.io~empty-dir/t>/opt/tools>ext4 />/opt/memory>tmpfs
/>/run/secrets/kubernetes.io/serviceaccount>tmpfs
/..2026_11_23_08_00_00.1/a>/etc/genericdp/a.yaml>tmpfs /POD/volume-subpaths/b/c/0>/srv/b>ext4
/>/data>ext4 />/host>ext4 /home/bin/nvidia>/usr/local/nvidia>ext4 /dri>/host/dev/dri>devtmpfs
/bus>/proc/bus>proc />/proc/acpi>tmpfs /null>/proc/kcore>devtmpfs
/POD/volumes/kubernetes.io~empty-dir/c>/opt/driver/cache>ext4
"""
CRIO = """
/>/>overlay />/dev>tmpfs /fuse>/dev/fuse>devtmpfs
/containers/storage/c/userdata/hostname>/etc/hostname>tmpfs
/containers/storage/c/userdata/run/secrets>/run/secrets>tmpfs
/lib/kubelet/device-plugins>/var/lib/kubelet/device-plugins>xfs />/opt/partition>xfs
/udev>/run/udev>tmpfs
"""
DOCKER = """
/>/>overlay />/dev>tmpfs /var/lib/docker/containers/3f0c/hostname>/etc/hostname>ext4
/var/lib/docker/volumes/tools/_data>/opt/tools>ext4 /srv/models>/srv/models>ext4
/devices>/sys/devices>sysfs /opt/a\\040b>/opt/a\\040b>ext4
"""
PODMAN = """
/>/>fuse.fuse-overlayfs />/dev>tmpfs
/containers/storage/c/userdata/.containerenv>/run/.containerenv>tmpfs
/@/opt/driver>/opt/driver>btrfs /home/u/models>/home/u/models>btrfs />/run/tools>tmpfs
"""


def parsed(mounts: str) -> list[tuple[str, str, str]]:
    """Return root, mount point and type of filesystem of mounts, as /proc/self/mountinfo does."""
    found = (mount.replace("\\040", " ").split(">") for mount in mounts.split())
    return [(root, point, kind) for root, point, kind in found]


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
        ([("/snapshots/7", "/", "btrfs"), HOSTNAME, OPT], {"/opt/driver/x"}),
        ([ROOT, ("/", "/dev/termination-log", "ext4")], set()),
        # What is mounted last is on top.
        ([ROOT, IMAGE], set()),
        ([IMAGE, ROOT], {"/opt/driver/x", "/opt/x"}),
        ([IMAGE, EMPTY, OPT], {"/opt/driver/x"}),
        ([IMAGE, OPT, EMPTY], set()),
        # A directory of some volume that has the same name.
        ([IMAGE, ("/x", "/opt/driver/x", "ext4")], set()),
        # /proc cannot be read.
        ([], set()),
    ],
)
def test_only_a_container_sees_less_than_everything(
    mounts: list[tuple[str, str, str]], seen: set[str]
) -> None:
    sees = seeing_host(mounts)
    assert {path for path in ("/opt/driver/x", "/opt/x") if sees(path)} == seen
