from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from genericdp.host.root import Root
from genericdp.host.sysfs import device_names
from genericdp.snapshot.archive import Kind
from genericdp.snapshot.copy import Copy, copied

from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


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
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def copy_of(root: Root) -> Copy:
    def read_it(path: str, read: Callable[[], bytes]) -> bytes:
        del path
        return read()

    return copied(root, Copy(), guard=read_it)


def in_dev(copy: Copy) -> set[str]:
    return {path for path in copy.entries if path.startswith("dev/")}


def written(copy: Copy, directory: Path) -> Root:
    for entry in copy.entries.values():
        at = directory / entry.path
        at.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind is Kind.FILE:
            at.write_bytes(entry.content)
    return Root(directory)


def test_a_node_that_sysfs_does_not_know_is_a_node_in_the_copy(tree: Tree, tmp_path: Path) -> None:
    tree.write("dev/nvidia0", "")
    tree.write("dev/also", "")
    copy = copy_of(Machine(tree.directory, {"/dev/nvidia0": (195, 0), "/dev/also": (195, 0)}))
    assert not copy.left_out
    names = device_names(written(copy, tmp_path / "copy"))
    assert names == {"nvidia0": ("char", (195, 0)), "also": ("char", (195, 0))}


def test_another_name_of_a_node_leaves_the_device_its_own(tree: Tree) -> None:
    tree.node("fuse", "10:229")
    tree.write("dev/mine", "")
    copy = copy_of(Machine(tree.directory, {"/dev/fuse": (10, 229), "/dev/mine": (10, 229)}))
    uevent = copy.entries["sys/devices/virtual/misc/fuse/uevent"]
    assert uevent.content == b"DEVNAME=mine\nMAJOR=10\nMINOR=229\nDEVNAME=fuse\n"


def test_what_sysfs_calls_otherwise_is_left_out(tree: Tree) -> None:
    tree.node("fuse", "10:229")
    tree.node("null", "1:3")
    copy = copy_of(Machine(tree.directory, {"/dev/null": (1, 5)}))  # and fuse is a plain file here
    assert in_dev(copy) == set()
    assert copy.left_out == {"not what sysfs calls by that name": 2}


def test_links_stay_links_and_become_relative(tree: Tree) -> None:
    tree.write("dev/ttyUSB0", "")
    tree.link("dev/serial/by-id/a", "../../ttyUSB0")
    tree.link("dev/serial/absolute", "/dev/ttyUSB0")
    tree.link("dev/dangling", "nothing")
    found = copy_of(Machine(tree.directory, {})).entries
    targets = {path: match.target for path, match in found.items() if match.kind is Kind.LINK}
    assert targets == {
        "dev/serial/by-id/a": "../../ttyUSB0",
        "dev/serial/absolute": "../ttyUSB0",
        "dev/dangling": "nothing",
    }


def test_what_belongs_to_sessions_is_left_out(tree: Tree) -> None:
    tree.write("dev/pts/0", "")
    tree.write("dev/shm/secret", "")
    tree.link("dev/stdin", "/proc/self/fd/0")
    tree.link("dev/log", "/run/systemd/journal/dev-log")
    copy = copy_of(Machine(tree.directory, {}))
    assert in_dev(copy) == {"dev/pts", "dev/shm"}
    assert not copy.left_out


def test_a_link_that_others_can_turn_is_left_out(tree: Tree) -> None:
    """Live it is refused; in the copy everything has one owner, and it would be taken."""
    tree.write("dev/a", "")
    tree.link("dev/open/link", "../a")
    (tree.directory / "dev/open").chmod(0o777)
    copy = copy_of(Machine(tree.directory, {}))
    assert "dev/open/link" not in copy.entries
    assert "can change" in next(iter(copy.left_out))


def test_a_link_may_vanish_while_it_is_copied(tree: Tree) -> None:
    class Unplugged(Root):
        def read_link(self, path: str) -> str:
            os.unlink(self.real(path))
            return super().read_link(path)

    tree.link("dev/disk", "sda")
    assert in_dev(copy_of(Unplugged(tree.directory))) == set()
