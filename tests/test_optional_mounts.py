"""Mounts with ``optional: true``: left out where it can be seen that there is nothing."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from genericdp.cli import main
from genericdp.host.root import seeing_host
from tests.fixtures.make_tree import Tree
from tests.hanging import hanging_mount
from tests.polling import ask_until
from tests.printed import resources_in
from tests.test_unreadable import forbidden
from tests.world import config, resource

if TYPE_CHECKING:
    from pathlib import Path

    from tests.world import World

Capture = pytest.CaptureFixture[str]
NAME = "example.com/fuse"
POLICY = (
    "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\ndevices: {paths: [/dev/fuse]}\n"
    "mounts: [{hostPath: /opt/driver}]\n"
)


class Asked:
    """A host with a device and a folder ``/opt/driver``, and the commands that are run on it."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        self.tree = Tree(folder / "root")
        self.tree.node("fuse", "10:229")
        self.tree.write("opt/driver/lib/libx.so", "")
        self._config = folder / "config.yaml"
        self._policy = folder / "policy.yaml"
        self._capsys = capsys

    def wants(self, *paths: str, optional: bool = True, **inject: object) -> None:
        """Write a config with these mounts."""
        mounts = [
            {"hostPath": path, "containerPath": f"/in{i}", "optional": optional}
            for i, path in enumerate(paths)
        ]
        inject = {"mounts": mounts, **inject}
        self._config.write_text(config(resource(NAME, "/dev/fuse", inject=inject)))

    def told(self, *words: str, policy: str = "") -> str:
        """Return what a command prints."""
        options = [f"--config={self._config}", f"--root={self.tree.folder}"]
        if policy:
            self._policy.write_text(policy)
            options.append(f"--policy={self._policy}")
        main([*words, *options])
        return "".join(self._capsys.readouterr())

    def discovered(self, *, policy: str = "") -> dict[str, Any]:
        """Return what ``discover`` says of the resource."""
        return dict(resources_in(self.told("discover", "-o", "json", policy=policy))[NAME])

    def mounted(self) -> list[str]:
        """Return the paths of the host that a container is given as mounts."""
        answer = json.loads(self.told("allocate", f"{NAME}=1", "-o", "json"))
        return [one["hostPath"] for one in answer[NAME]["mounts"]]


@pytest.fixture
def host(short_folder: Path, capsys: Capture) -> Asked:
    return Asked(short_folder, capsys)


def test_a_mount_of_what_is_there_is_given(host: Asked) -> None:
    host.tree.link("opt/current", "driver")
    paths = ["/opt/driver", "/opt/driver/lib/", "/opt/driver/lib/libx.so", "/opt/current/lib"]
    host.wants(*paths)
    assert host.mounted() == paths
    found = host.discovered()
    assert found["missingMounts"] == found["unseenMounts"] == []


def test_a_mount_of_what_is_not_there_is_left_out(host: Asked) -> None:
    """Also behind a link, and below what is a file."""
    host.tree.link("opt/current", "driver/8")
    host.wants(
        "/opt/driver", "/opt/none", "/opt/driver/none/", "/opt/current", "/opt/driver/lib/libx.so/x"
    )
    assert host.mounted() == ["/opt/driver"]
    found = host.discovered()
    assert [one["state"] for one in found["devices"]] == ["Healthy"]
    assert found["missingMounts"] == found["unseenMounts"] == []
    assert "Mounts:" not in host.told("discover")


def test_without_optional_it_is_given_and_told_to_be_missing(host: Asked) -> None:
    host.wants("/opt/none", optional=False)
    assert host.mounted() == ["/opt/none"]
    assert host.discovered()["missingMounts"] == ["/opt/none"]


def test_a_mount_that_cannot_be_seen_is_given_and_told(host: Asked) -> None:
    """A copy of a machine without /srv; nor can be seen where a link leads from what it has."""
    host.tree.link("opt/data", "/srv/data")
    paths = ["/srv/data", "/opt/data"]
    host.wants(*paths)
    assert host.mounted() == paths
    found = host.discovered()
    assert (found["missingMounts"], found["unseenMounts"]) == ([], paths)
    said = "is optional, and cannot be seen from here: it is mounted, whether or not it exists"
    assert host.told("discover").partition("Mounts:\n")[2].splitlines() == [
        f"  {NAME}: hostPath {path} {said}" for path in paths
    ]
    host.wants(*paths, optional=False)
    assert host.discovered()["unseenMounts"] == []


def test_a_mount_in_a_folder_that_cannot_be_read_is_given_and_told(
    host: Asked, short_folder: Path
) -> None:
    host.wants("/opt/driver/lib", "/opt/driver/none")
    short_folder.chmod(0o755)
    with forbidden(host.tree.folder / "opt/driver"):
        found = host.discovered()
        assert found["unseenMounts"] == ["/opt/driver/lib", "/opt/driver/none"]
        assert host.mounted() == ["/opt/driver/lib", "/opt/driver/none"]


@pytest.mark.parametrize("there", [True, False])
def test_a_policy_forbids_a_mount_whether_or_not_it_is_there(host: Asked, there: bool) -> None:
    if there:
        host.tree.write("opt/other/fuse", "")
    host.wants("/opt/$(property.x:-other)/fuse")
    found = host.discovered(policy=POLICY)
    assert found["devices"] == []
    assert (
        "/opt/other/fuse is not among the mounts that are allowed"
        in (found["notOffered"][0]["reason"])
    )
    host.wants("/opt/other")
    assert "hostPath: '/opt/other' is not allowed" in host.told("discover", policy=POLICY)


def test_a_link_in_a_circle_is_refused_as_in_other_mounts(host: Asked) -> None:
    host.tree.link("opt/circle", "circle")
    host.wants("/opt/circle")
    assert "its links lead in a circle" in host.discovered()["notOffered"][0]["reason"]


def test_a_device_of_which_nothing_is_left_is_not_offered(host: Asked) -> None:
    host.wants("/opt/none", devices=[])
    found = host.discovered()
    assert found["devices"] == []
    assert "nothing to give" in found["notOffered"][0]["reason"]


def test_what_is_not_there_takes_no_place_in_the_container(host: Asked) -> None:
    mounts = [
        {"hostPath": path, "containerPath": "/usr/local/driver", "optional": True}
        for path in ("/opt/none", "/opt/driver")
    ]
    host.wants(mounts=mounts)
    assert host.mounted() == ["/opt/driver"]


async def test_a_mount_that_comes_and_goes_is_followed(world: World) -> None:
    folder = world.host.folder / "opt/driver"
    folder.parent.mkdir()
    world.host.plug("ttyUSB0")
    mount = {"hostPath": "/opt/driver", "containerPath": "/x", "optional": True}
    wanted = resource("example.com/r", "/dev/ttyUSB0", inject={"mounts": [mount]})

    async def given(count: int) -> None:
        async def mounts() -> int:
            answer = await world.allocated("example.com/r", ["ttyUSB0"])
            return len(answer.container_responses[0].mounts)

        await ask_until(mounts, lambda found: found == count)

    async with world.serving(wanted) as daemon:
        await world.listed("example.com/r", "ttyUSB0")
        await given(0)
        folder.mkdir()
        await given(1)
        folder.rmdir()
        await given(0)
        await daemon.offers("example.com/r", ttyUSB0="")


@pytest.mark.slow
async def test_a_mount_that_hangs_is_left_out_until_it_answers(world: World) -> None:
    """No container could start with it, and the kubelet would wait for each Allocate."""
    world.host.plug("ttyUSB0")
    mount = {"hostPath": "/mnt", "containerPath": "/x", "optional": True}
    wanted = resource("example.com/r", "/dev/ttyUSB0", inject={"mounts": [mount]})
    with ExitStack() as stack:
        stack.enter_context(hanging_mount(world.host.folder / "mnt"))
        async with world.serving(wanted) as daemon:
            assert (await world.container(r=1)).mounts == ()
            await daemon.offers("example.com/r", ttyUSB0="")
            stack.close()

            async def is_given() -> bool:
                answer = await world.allocated("example.com/r", ["ttyUSB0"])
                return bool(answer.container_responses[0].mounts)

            await ask_until(is_given, bool)


@pytest.mark.slow
async def test_a_mount_that_begins_to_hang_fails_one_allocate_at_most(world: World) -> None:
    (world.host.folder / "mnt").mkdir()
    world.host.plug("ttyUSB0")
    mount = {"hostPath": "/mnt", "containerPath": "/x", "optional": True}
    wanted = resource("example.com/r", "/dev/ttyUSB0", inject={"mounts": [mount]}, replicas=2)
    async with world.serving(wanted) as daemon:
        assert (await world.container(r=1)).mounts
        with hanging_mount(world.host.folder / "mnt"):
            assert "looking at the nodes of ttyUSB0 does not end" in await world.refusal("q", r=1)

            async def is_left_out() -> bool:
                try:
                    answer = await world.allocated("example.com/r", ["ttyUSB0"])
                except grpc.aio.AioRpcError:
                    return False
                return not answer.container_responses[0].mounts

            await ask_until(is_left_out, bool)
            await daemon.offers("example.com/r", ttyUSB0="")


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
        # The subvolume of a root filesystem may be any folder of the host.
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
        # /proc cannot be read, or the root is no mount.
        ([], set()),
        ([OPT], {"/opt/driver/x"}),
    ],
)
def test_only_a_container_sees_less_than_everything(
    mounts: list[tuple[str, str, str]], seen: set[str]
) -> None:
    sees = seeing_host(mounts)
    assert {path for path in ("/opt/driver/x", "/opt/x") if sees(path)} == seen
