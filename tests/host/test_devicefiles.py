"""Globs over device files, and which of these may be handed out."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host.devicefiles import DeviceFiles, is_same
from genericdp.host.root import Root

from tests.cases.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

MACHINE = Root(Path("/"))
TWO_ADAPTERS = Path(__file__).parents[1] / "cases/machines/two-adapters.yaml"


@pytest.fixture
def tree(tmp_path: Path) -> Machine:
    return Machine(tmp_path, TWO_ADAPTERS)


def found(tree: Machine, pattern: str) -> list[str]:
    return [file.path for file in DeviceFiles(tree.root).look(pattern).files]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("/dev/ttyUSB*", ["/dev/ttyUSB0", "/dev/ttyUSB1"]),
        ("/dev/ttyUSB[!0]", ["/dev/ttyUSB1"]),
        ("/dev/[t]tyUSB0", ["/dev/ttyUSB0"]),
        ("/dev/*USB1", ["/dev/ttyUSB1"]),
        ("/dev/ttyUSB", []),
        ("/dev/ttyUSB0", ["/dev/ttyUSB0"]),
        ("/dev//./ttyUSB0", ["/dev/ttyUSB0"]),
        ("/dev/ttyUSB0/", ["/dev/ttyUSB0"]),
        ("/dev/ttyUSB0/x", []),
        ("/dev/ttyUSB0/*", []),
        ("/dev/input/event*", [f"/dev/input/event{i}" for i in (0, 1, 10)]),
        ("/dev/*/event?", ["/dev/input/event0", "/dev/input/event1"]),
        ("/*/*/event10", ["/dev/input/event10"]),
        ("/dev/serial/*/usb-FTDI_A1*", ["/dev/serial/by-id/usb-FTDI_A10K5UHJ-if00-port0"]),
        ("/dev/absent/*", []),
        ("/absent/*/x", []),
        ("/dev/snd", ["/dev/snd"]),
        ("/dev/*idden", []),
        ("/dev/.h*", ["/dev/.hidden"]),
    ],
)
def test_a_glob_finds_paths_in_natural_order(tree: Machine, pattern: str, paths: list[str]) -> None:
    tree.write("dev/.hidden", "")
    assert found(tree, pattern) == paths


class Vanishing(Root):
    """A tree whose device disappears while it is read: as in the kernel, its node first."""

    def read_link(self, path: str) -> str:
        if path == "/sys/dev/char/188:1":
            Path(self.real("/dev/ttyUSB1")).unlink()
            Path(self.real(path)).unlink()
        return super().read_link(path)


def test_a_node_whose_device_vanishes_meanwhile_is_not_one_without_a_device(tree: Machine) -> None:
    """It was offered under an ID that is made of its path, and kept that when it was back."""
    assert DeviceFiles(Vanishing(tree.directory)).look("/dev/ttyUSB1").files == ()


def test_a_wildcard_does_not_lead_through_a_link_to_a_directory(tree: Machine) -> None:
    """D13: recursion follows /dev/fd and /dev/shm."""
    tree.link("dev/all", "input")
    tree.link("dev/here", ".")
    assert found(tree, "/dev/*/event0") == ["/dev/input/event0"]
    assert found(tree, "/dev/all/event0") == ["/dev/all/event0"], "written out it is meant"
    assert found(tree, "/dev/all/event?") == ["/dev/all/event0", "/dev/all/event1"]


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory on another filesystem than /dev itself."""
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat("/dev").st_dev:
        pytest.skip("/dev/shm is not a filesystem of its own")
    directory = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="genericdp-"))
    yield directory
    shutil.rmtree(directory)


def test_a_link_from_another_filesystem_smuggles_no_node_in(elsewhere: Path) -> None:
    """D13: anyone can write to /dev/shm."""
    (elsewhere / "innocent").symlink_to("/dev/null")
    (elsewhere / "directory").symlink_to("/dev")
    for name in ("innocent", "directory/null"):
        file = DeviceFiles(MACHINE).examine(f"{elsewhere}/{name}")
        assert file is not None
        assert file.key == "char:1:3"
        assert "is not on the filesystem mounted at /dev" in file.refusal
        assert is_same(MACHINE, file.path, file.identity) is False, "nor at an allocation"
    null = DeviceFiles(MACHINE).examine("/dev/null")
    assert null is not None
    assert (null.refusal, is_same(MACHINE, "/dev/null", null.identity)) == ("", True)


def test_a_node_on_another_filesystem_is_not_handed_out(elsewhere: Path) -> None:
    """D13: anyone who may make nodes in /dev/shm does not choose what is offered."""
    node = elsewhere / "null"
    try:
        os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("needs root to make a device node")
    file = DeviceFiles(MACHINE).examine(str(node))
    assert file is not None
    assert file.key == "char:1:3"
    assert file.refusal == f"{node} is not on the filesystem mounted at /dev"


def test_a_link_through_proc_is_not_trusted() -> None:
    with open("/dev/null", "rb") as file:
        entry = DeviceFiles(MACHINE).examine(f"/dev/fd/{file.fileno()}")
    assert entry is None or "not on the filesystem mounted at /dev" in entry.refusal


def test_a_link_to_a_directory_of_another_filesystem_is_not_handed_out(elsewhere: Path) -> None:
    (elsewhere / "etc").symlink_to("/etc")
    (elsewhere / "own").mkdir()
    (elsewhere / "near").symlink_to("own")
    files = {file.path: file for file in DeviceFiles(MACHINE).look(f"{elsewhere}/*").files}
    refusals = {path.rpartition("/")[2]: file.refusal for path, file in files.items()}
    assert refusals == {"etc": "it is a link to another filesystem", "near": "", "own": ""}


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        (b"\xff", "its name is not valid UTF-8"),
        (b"a\nb", "its name holds a control character"),
        (b"\x1b[31m", "its name holds a control character"),
        (b"\x7f", "its name holds a control character"),
        ("caf\u00e9\u00a0\u200b".encode(), ""),
    ],
)
def test_names_that_cannot_be_told_to_the_kubelet_are_refused(
    tree: Machine, name: bytes, refusal: str
) -> None:
    os.mkdir(os.fsencode(tree.directory / "dev/odd"))
    with open(os.fsencode(tree.directory / "dev/odd/") + b"/" + name, "wb"):
        pass
    tree.link("dev/odd-link", os.fsdecode(b"odd/" + name))
    for pattern in ("/dev/odd/*", "/dev/odd-link"):
        (file,) = DeviceFiles(tree.root).look(pattern).files
        assert file.refusal == refusal
        assert file.printable_path.isprintable()


def directories(tree: Machine, pattern: str) -> set[str]:
    return set(DeviceFiles(tree.root).look(pattern).directories)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/dev/ttyUSB*", {"/dev"}),
        ("/dev/ttyUSB0", {"/dev"}),
        ("/dev/none", {"/dev"}),
        ("/dev/none/by/id", {"/dev"}),
        ("/dev/none/by/*", {"/dev"}),
        ("/dev/ttyUSB0/below", {"/dev"}),
        ("/none/of/this", {"/"}),
        ("/dev/serial/by-id/*", {"/dev/serial/by-id", "/dev"}),
        ("/dev/serial/*/none", {"/dev/serial", "/dev/serial/by-id", "/dev/serial/by-path"}),
        ("/dev/dangling", {"/dev", "/dev/snd"}),
        ("/dev/chain/ttyUSB0", {"/dev", "/dev/snd"}),
        ("/dev/chain/tty*", {"/dev", "/dev/snd"}),
    ],
)
def test_the_directories_to_watch_are_those_where_a_change_could_count(
    tree: Machine, pattern: str, expected: set[str]
) -> None:
    tree.link("dev/dangling", "snd/not/yet")
    tree.link("dev/chain", "/dev/snd/back")
    tree.link("dev/snd/back", "/dev")
    assert directories(tree, pattern) == expected


@pytest.mark.parametrize("base", ["/dev/shm", None])
def test_a_node_that_was_removed_or_made_again_is_told(base: str | None) -> None:
    """D4, D5, on tmpfs (never reuses an inode) and where the temporary directory lies.

    ext4 reuses an inode at once; there the USB number shows.
    """
    if base is not None and not os.path.isdir(base):
        pytest.skip(f"no {base}")
    with tempfile.TemporaryDirectory(dir=base) as directory:
        tree = Machine(Path(directory), TWO_ADAPTERS)
        path = "/dev/serial/by-id/usb-FTDI_A10K5UHJ-if00-port0"
        before = DeviceFiles(tree.root).examine(path)
        assert before is not None
        assert is_same(tree.root, path, before.identity) is True
        tree.pull_out("1-1")
        assert is_same(tree.root, path, before.identity) is None
        tree.plug_in("1-1", {})
        assert is_same(tree.root, path, before.identity) is False
        after = DeviceFiles(tree.root).examine(path)
        assert after is not None
        assert after.identity.device_number == before.identity.device_number
        tree.link(path[1:], "../../ttyUSB1")
        assert is_same(tree.root, path, after.identity) is False


@pytest.mark.parametrize("pattern", ["/proc/d*", "/sys/devices/usb/t*", "/sys/devices/usb/x"])
def test_what_nothing_tells_of_is_not_remembered(tmp_path: Path, pattern: str) -> None:
    tree = Machine(tmp_path)
    tree.write("proc/driver", "")
    tree.write("sys/devices/usb/tty7/uevent", "")
    files = DeviceFiles(tree.root)
    before = files.look(pattern)
    tree.write("proc/device", "")
    tree.write("sys/devices/usb/types", "")
    tree.write("sys/devices/usb/x", "")
    files.forget(())
    assert files.look(pattern) != before
    assert files.look(pattern) == DeviceFiles(tree.root).look(pattern)
