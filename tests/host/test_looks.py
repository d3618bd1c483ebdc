"""What the globs have found, after this and that was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.host.devicefiles import DeviceFiles
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
    "/dev/all/*",
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
    tree.link("dev/all", "bus")
    tree.write("proc/driver", "")
    tree.write("sys/devices/usb/tty7/uevent", "")
    return tree


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
    "change",
    [
        add_node,
        add_hidden,
        add_link,
        add_dead_link,
        remove_node,
        remove_link,
        add_control,
        add_in_a_wildcard_folder,
        replace_a_folder,
        add_a_file_of_a_device,
    ],
)
def test_what_is_remembered_is_what_a_new_look_gives(
    tree: Tree, change: Callable[[Tree], str]
) -> None:
    files = DeviceFiles(tree.root)
    for pattern in GLOBS:
        files.look(pattern)
    files.forget({change(tree)})
    fresh = DeviceFiles(tree.root)
    for pattern in GLOBS:
        assert files.look(pattern) == fresh.look(pattern), pattern


@pytest.mark.parametrize("pattern", ["/proc/d*", f"{USB}/t*", f"{USB}/x"])
def test_what_nothing_tells_of_is_not_remembered(tree: Tree, pattern: str) -> None:
    files = DeviceFiles(tree.root)
    before = files.look(pattern)
    tree.write("proc/device", "")
    tree.write(f"{USB[1:]}/types", "")
    tree.write(f"{USB[1:]}/x", "")
    files.forget(())
    assert files.look(pattern) != before
    assert files.look(pattern) == DeviceFiles(tree.root).look(pattern)


def test_an_event_of_a_device_is_about_the_files_of_all_that_sits_on_it(tree: Tree) -> None:
    files = DeviceFiles(tree.root)
    before = {one.path: one for one in files.look("/dev/tty*").files}
    tree.remove("dev/tty1")
    tree.node("tty1", "188:9", at="usb")
    files.forget({"/sys/devices/other"})
    assert {one.path: one for one in files.look("/dev/tty*").files} == before
    files.forget({USB})
    assert {one.path: one for one in files.look("/dev/tty*").files} != before
