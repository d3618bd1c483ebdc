"""What ``discover`` makes of links to folders, and of texts of sysfs that are no numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.cli import main
from tests.fixtures.make_tree import Tree
from tests.printed import resources_in
from tests.world import config, resource

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NAME = "example.com/serial"


def discovered(tree: Tree, glob: str, capsys: pytest.CaptureFixture[str]) -> dict[str, list[int]]:
    """Return the NUMA nodes of each device that is offered, by its path."""
    file = tree.folder / "config.yaml"
    file.write_text(config(resource(NAME, glob)))
    where = ("--config", str(file), "--root", str(tree.folder), "--node-name", "node-1")
    code = main(["discover", *where, "-o", "json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    found: dict[str, Any] = resources_in(out)[NAME]
    return {one["path"]: one["numaNodes"] for one in found["devices"]}


def test_a_wildcard_does_not_lead_through_a_link_to_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D13."""
    tree = Tree(tmp_path)
    tree.node("serial/tty0", "188:0")
    tree.node("other/deep/tty1", "188:1")
    tree.link("dev/linked", "other/deep")
    assert set(discovered(tree, "/dev/*/tty*", capsys)) == {"/dev/serial/tty0"}


def test_a_numa_node_that_is_no_number_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D10."""
    tree = Tree(tmp_path)
    tree.write("sys/devices/system/node/online", "0-1\n")
    for number, text in enumerate(("1", "x")):
        function = f"devices/pci0000:00/0000:00:0{number}.0"
        tree.write(f"sys/{function}/uevent", f"PCI_SLOT_NAME=0000:00:0{number}.0\n")
        tree.write(f"sys/{function}/numa_node", f"{text}\n")
        tree.link(f"sys/{function}/subsystem", "../../../bus/pci")
        tree.link(f"sys/bus/pci/devices/0000:00:0{number}.0", f"../../../{function}")
        tree.node(f"tty{number}", f"188:{number}", at=f"pci0000:00/0000:00:0{number}.0/tty")
    found = discovered(tree, "/dev/tty*", capsys)
    assert found.keys() == {"/dev/tty0", "/dev/tty1"}
    assert found["/dev/tty1"] == []
