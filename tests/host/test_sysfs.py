"""Facts in sysfs about a device number."""

from __future__ import annotations

import os
from pathlib import Path

from genericdp.host.root import Root
from genericdp.host.sysfs import device_names, plugged_of, syspath_of
from genericdp.model import FileType

from tests.cases.machine import Machine

LAPTOP = Path(__file__).parents[1] / "fixtures/laptop"
TWO_ADAPTERS = Path(__file__).parents[1] / "cases/machines/two-adapters.yaml"
CHAR, BLOCK = FileType.CHAR, FileType.BLOCK


def test_a_copy_whose_links_became_directories_has_no_syspath(tmp_path: Path) -> None:
    tree = Machine(tmp_path)
    tree.write("sys/dev/char/188:0/uevent", "DEVNAME=ttyUSB0\n")
    assert syspath_of(tree.root, CHAR, (188, 0)) is None
    assert device_names(tree.root) == {"ttyUSB0": (CHAR, (188, 0))}


def test_links_that_do_not_lead_to_devices_give_no_syspath(tmp_path: Path) -> None:
    tree = Machine(tmp_path)
    tree.link("sys/dev/char/1:1", "/etc")
    tree.link("sys/dev/char/1:2", "../../../../../sys/devices/../../etc")
    assert [syspath_of(tree.root, CHAR, (1, n)) for n in (1, 2)] == [None, None]


def test_what_grows_with_each_replug(tmp_path: Path) -> None:
    def plugged(root: Root, kind: FileType, *number: int) -> str:
        pair = (number[0], number[1])
        return plugged_of(root.read_text, kind, syspath_of(root, kind, pair))

    laptop, adapters = Root(LAPTOP), Machine(tmp_path, TWO_ADAPTERS).root
    assert plugged(laptop, CHAR, 81, 1) == "usb 1:3"
    assert plugged(adapters, CHAR, 188, 0) == "usb 1:5"
    assert plugged(adapters, CHAR, 188, 1) == "usb 1:6"
    assert plugged(laptop, BLOCK, 259, 0) == "diskseq 1"
    assert plugged(laptop, BLOCK, 259, 1) == "diskseq 1", "a partition goes with its disk"
    assert plugged(laptop, CHAR, 1, 3) == ""
    assert plugged_of(laptop.read_text, CHAR, None) == ""


def test_only_numbers_with_a_name_are_named(tmp_path: Path) -> None:
    tree = Machine(tmp_path)
    for junk in ("x:y", "1", "1:2:3", "0x1:2", "²:1"):
        tree.write(f"sys/dev/char/{junk}/uevent", f"DEVNAME={junk}\n")
    tree.write("sys/devices/x/y/dev", "1:6\n")  # without a uevent
    tree.link("sys/dev/char/1:6", "../../devices/x/y")
    tree.write("sys/dev/char/1:4/uevent", "DEVNAME=\nnonsense\n")
    tree.link("sys/dev/char/1:5", "../../devices/gone")
    tree.node("null", "1:3")
    assert device_names(tree.root) == {"null": (CHAR, (1, 3))}


def test_this_machine_agrees_with_the_kernel() -> None:
    root = Root(Path("/"))
    for kind in (CHAR, BLOCK):
        for entry in os.listdir(f"/sys/dev/{kind}"):
            major, minor = map(int, entry.split(":"))
            real = os.path.realpath(f"/sys/dev/{kind}/{entry}")
            assert syspath_of(root, kind, (major, minor)) == real
