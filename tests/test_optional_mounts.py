"""Mounts with ``optional: true``: left out where it can be seen that there is nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from genericdp.cli import main
from genericdp.host.mounts import folders_of_host
from tests.fixtures.make_tree import Tree
from tests.polling import ask_until
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
        found: dict[str, Any] = json.loads(self.told("discover", "-o", "json", policy=policy))
        return dict(found["resources"][NAME])

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


ROOT, IMAGE = ("/", "/", "ext4"), ("/", "/", "overlay")
OPT, HOSTNAME = ("/opt/driver", "/opt/driver", "ext4"), ("/x", "/etc/hostname", "ext4")


@pytest.mark.parametrize(
    ("mounts", "folders"),
    [
        # A machine, whose root is a filesystem of its own.
        ([ROOT, OPT, ("/", "/proc", "proc")], None),
        ([("/@", "/", "btrfs"), OPT], None),
        # Containers: by the image's layers, or by what runtimes mount into all of them.
        ([IMAGE, OPT], {"/opt/driver"}),
        ([("/", "/", "fuse.fuse-overlayfs"), OPT], {"/opt/driver"}),
        ([("/snapshots/7", "/", "btrfs"), HOSTNAME, OPT], {"/etc/hostname", "/opt/driver"}),
        ([ROOT, ("/", "/dev/termination-log", "ext4")], {"/dev/termination-log"}),
        # What is mounted last is on top.
        ([ROOT, IMAGE], set()),
        ([IMAGE, ROOT], None),
        # /proc cannot be read, or the root is no mount.
        ([], set()),
        ([OPT], {"/opt/driver"}),
    ],
)
def test_a_container_sees_of_the_host_what_is_mounted_into_it(
    mounts: list[tuple[str, str, str]], folders: set[str] | None
) -> None:
    assert folders_of_host(mounts) == folders
