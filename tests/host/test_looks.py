"""What the globs have found, after this and that was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.inventory import Look
from genericdp.host.devicefiles import Looker
from genericdp.host.looks import Looks
from tests.devices.making import node
from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USB = "/sys/devices/usb"
GLOBS = (
    "/dev/tty*",
    "/dev/serial/by-id/*",
    "/dev/control",
    "/dev/b?s/*",
    f"{USB}/tty7",
    f"{USB}/x",
)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.node("tty1", "188:1", at="usb")
    tree.node("tty10", "188:10", at="usb")
    tree.link("dev/serial/by-id/one", "../../tty1")
    tree.write("dev/bus/1", "")
    tree.write("proc/driver", "")
    tree.write("sys/devices/usb/tty7/uevent", "")
    return tree


def known(tree: Tree, *globs: str) -> Looks:
    looks, looker = Looks(), Looker(tree.root)
    for pattern in globs:
        looks.keep(pattern, looker.look(pattern))
    return looks


def add_node(tree: Tree) -> str:
    tree.node("tty2", "188:2", at="usb")
    return "/dev/tty2"


def add_hidden(tree: Tree) -> str:
    tree.write("dev/.tty", "")
    return "/dev/.tty"


def add_link(tree: Tree) -> str:
    tree.link("dev/tty3", "tty1")
    return "/dev/tty3"


def add_dead_link(tree: Tree) -> str:
    tree.link("dev/tty3", "nothing")
    return "/dev/tty3"


def remove_node(tree: Tree) -> str:
    (tree.folder / "dev/tty1").unlink()
    return "/dev/tty1"


def remove_link(tree: Tree) -> str:
    (tree.folder / "dev/serial/by-id/one").unlink()
    return "/dev/serial/by-id/one"


def add_control(tree: Tree) -> str:
    tree.write("dev/control", "")
    return "/dev/control"


def add_in_a_wildcard_folder(tree: Tree) -> str:
    tree.write("dev/bus/2", "")
    return "/dev/bus/2"


def replace_a_folder(tree: Tree) -> str:
    (tree.folder / "dev/serial").rename(tree.folder / "dev/away")
    return "/dev/serial"


def add_a_file_of_a_device(tree: Tree) -> str:
    """Nothing is told but that some device has changed."""
    tree.write("sys/devices/usb/x", "")
    return "/sys/devices/other"


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (add_node, "/dev/tty*"),
        (add_hidden, ""),
        (add_link, "/dev/tty*"),
        (add_dead_link, "/dev/tty*"),
        (remove_node, "/dev/serial/by-id/*"),
        (remove_link, "/dev/serial/by-id/*"),
        (add_control, "/dev/control"),
        (add_in_a_wildcard_folder, "/dev/b?s/*"),
        (replace_a_folder, "/dev/serial/by-id/*"),
        (add_a_file_of_a_device, f"{USB}/x"),
    ],
)
def test_what_is_remembered_is_what_a_new_look_gives(
    tree: Tree, change: Callable[[Tree], str], changed: str
) -> None:
    looks = known(tree, *GLOBS)
    told = change(tree)
    again = looks.renew([told], Looker(tree.root))
    fresh = Looker(tree.root)
    assert not changed or changed in again
    for pattern in GLOBS:
        look = looks.get(pattern)
        assert look is None or look.files == fresh.look(pattern).files, pattern


def test_one_node_of_many_does_not_cost_a_look_at_all(tree: Tree) -> None:
    looks = known(tree, "/dev/tty*", "/dev/control")
    before = looks.get("/dev/tty*")
    assert before is not None
    assert looks.renew([add_node(tree)], Looker(tree.root)) == {"/dev/tty*"}
    after = looks.get("/dev/tty*")
    assert after is not None
    assert [one.path for one in after.files] == ["/dev/tty1", "/dev/tty2", "/dev/tty10"]
    assert after.files[0] is before.files[0]
    assert looks.get("/dev/control") is not None


@pytest.mark.parametrize("pattern", ["/sys/class/*/x", "/proc/d*", f"{USB}/t*", f"{USB}/x"])
def test_what_nothing_tells_of_is_not_remembered(tree: Tree, pattern: str) -> None:
    looks = known(tree, pattern)
    assert looks.get(pattern) is None
    assert looks.renew([], Looker(tree.root)) == {pattern}
    assert looks.renew([], Looker(tree.root)) == set(), "unless it was looked at again"


def test_an_event_of_a_device_is_about_the_files_of_all_that_sits_on_it(tree: Tree) -> None:
    looks = known(tree, "/dev/tty*", f"{USB}/tty7")
    assert sorted(looks.paths_of(USB, "")) == [f"/dev/tty{i}" for i in (1, 10)] + [f"{USB}/tty7"]
    assert looks.paths_of(USB, "") == [], "who takes them looks at them again"


def test_a_node_that_sysfs_does_not_know_is_found_by_its_number() -> None:
    looks = Looks()
    looks.keep("/dev/odd", Look(files=(node("/dev/odd", (9, 9)),), plain=True))
    assert looks.paths_of("/sys/devices/odd", "char:9:8") == []
    assert looks.paths_of("/sys/devices/odd", "char:9:9") == ["/dev/odd"]
