from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from genericdp.host.cache import HostCache, Stale
from genericdp.host.events import Uevent

from tests.cases.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.devices.inventory import SysDevice

GPU = "/sys/devices/pci0000:00/0000:0a:00.0"
CARD = f"{GPU}/drm/card0"


@pytest.fixture
def tree(tmp_path: Path) -> Machine:
    """A GPU with a card."""
    tree = Machine(tmp_path)
    tree.write(f"{GPU[1:]}/uevent", "DRIVER=amdgpu\n")
    tree.write(f"{GPU[1:]}/vendor", "0x1002\n")
    tree.link(f"{GPU[1:]}/subsystem", "../../../bus/pci")
    tree.link(f"{GPU[1:]}/iommu_group", "../../../kernel/iommu_groups/20")
    tree.link("sys/bus/pci/devices/0000:0a:00.0", f"../../../{GPU.removeprefix('/sys/')}")
    tree.write("sys/kernel/iommu_groups/20/type", "DMA\n")
    tree.node("dri/card0", "226:0", at=f"{GPU.removeprefix('/sys/devices/')}/drm")
    tree.link(f"{CARD[1:]}/subsystem", "../../../../../class/drm")
    tree.link("sys/class/drm/card0", f"../../{CARD.removeprefix('/sys/')}")
    tree.write("proc/driver/information", "  Minor: 3\n\n")
    return tree


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, ""),
        (lambda path: path.mkdir(), "it is a directory, not a file"),
        (os.mkfifo, "it is a FIFO, not a file"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    ],
    ids=["not there", "a directory", "a pipe", "a loop"],
)
def test_what_cannot_be_read_is_lacking_with_the_reason(
    tree: Machine, make: Callable[[Path], None], why: str
) -> None:
    make(tree.directory / GPU[1:] / "strange")
    facts = HostCache(tree.root)
    assert facts.attribute(GPU, "strange") is None
    assert facts.why_unreadable(f"{GPU}/strange") == why


@pytest.mark.parametrize(
    "name", ["device/vendor", "parent/vendor", "device/../0000:0a:00.0/vendor", "to/serial"]
)
def test_an_attribute_behind_a_link_is_read_again_when_its_own_device_changes(
    tree: Machine, name: str
) -> None:
    tree.link(f"{CARD[1:]}/device", "../../../0000:0a:00.0")
    tree.link(f"{CARD[1:]}/parent", GPU)
    tree.link(f"{CARD[1:]}/to", f"{GPU}/parts")
    tree.write(f"{GPU[1:]}/parts/serial", "0x1002\n")
    facts = HostCache(tree.root)
    assert facts.attribute(CARD, name) == "0x1002"
    for text in ("0x10de", "0x8086"):
        for file in ("vendor", "parts/serial"):
            tree.write(f"{GPU[1:]}/{file}", f"{text}\n")
        facts.forget(Stale(syspaths={GPU}))
        assert facts.attribute(CARD, name) == text


def test_an_attribute_behind_a_link_to_what_is_no_ancestor(tree: Machine) -> None:
    """As ``physfn/…`` of a virtual function, whose parent lies next to it."""
    other = "/sys/devices/pci0000:00/0000:0b:00.0"
    tree.write(f"{other[1:]}/uevent", "")
    tree.link(f"{GPU[1:]}/physfn", "../0000:0b:00.0")
    tree.link(f"{other[1:]}/net", "/nowhere")
    facts = HostCache(tree.root)
    assert facts.attribute(GPU, "physfn/numvfs") is None
    facts.forget(Stale(syspaths={GPU}))
    assert facts.attribute(GPU, "physfn/numvfs") is None
    tree.write(f"{other[1:]}/numvfs", "4\n")
    facts.forget(Stale(syspaths={other}))
    assert facts.attribute(GPU, "physfn/numvfs") == "4"


def event(syspath: str, subsystem: str, number: tuple[int, int] | None = None) -> Uevent:
    return Uevent(action="change", syspath=syspath, subsystem=subsystem, number=number)


FOREIGN = (
    event("/sys/devices/virtual/mem/null", "mem", (1, 3)),
    event("/sys/devices/virtual/net/veth0", "net"),
    event("/sys/devices/pci0000:00/0000:0b:00.0", "pci"),
    event("/sys/devices/system/node/node1", "node"),
    "/dev/null",
    "/dev/.udev-tmp",
    "c1:3",
)
"""What none of these questions is about."""


@pytest.mark.parametrize(
    ("ask", "news"),
    [
        (lambda facts: facts.device(CARD), [event(CARD, "drm"), event(GPU, "pci")]),
        (
            lambda facts: facts.members("drm"),
            [event(f"{GPU}/drm/card1", "drm"), event(f"{GPU}/drm/card1", ""), "c226:0"],
        ),
        (lambda facts: facts.attribute(CARD, "device/vendor"), [event(GPU, "pci")]),
        (
            lambda facts: facts.attribute(GPU, "drm/card1/dev"),
            [event(f"{GPU}/drm/card1", "drm"), event(GPU, "pci")],
        ),
        (
            lambda facts: facts.text("/sys/devices/system/cpu/online"),
            [event("/sys/devices/system/cpu/cpu1", "cpu")],
        ),
        (
            lambda facts: facts.look("/sys/class/drm/card*"),
            [event("/sys/devices/virtual/card1", "drm"), event(CARD, "drm")],
        ),
        (
            lambda facts: facts.look("/dev/dri/card*"),
            ["/dev/dri/card0", "/dev/dri/card1", "/dev/dri", event(CARD, "drm"), event(GPU, "pci")],
        ),
        (lambda facts: facts.look("/dev/by-path/*"), ["/dev/by-path", "/dev/by-path/x"]),
        (lambda facts: facts.look("/dev/link"), ["/dev/link", "/dev/elsewhere"]),
        (lambda facts: facts.target("/dev/link/x"), ["/dev/link", "/dev/elsewhere"]),
        (
            lambda facts: facts.look("/dev/other"),
            [event("/sys/devices/virtual/other", "x", (241, 7))],
        ),
    ],
    ids=[
        *(
            "device",
            "members",
            "linked attribute",
            "missing attribute",
            "text",
            "glob over a class",
        ),
        *("glob", "glob in no directory", "dangling link", "target", "node without a device"),
    ],
)
def test_an_event_concerns_what_was_read_and_nothing_else(
    tree: Machine,
    ask: Callable[[HostCache], object],
    news: list[Uevent | str],
) -> None:
    tree.link(f"{CARD[1:]}/device", "../../../0000:0a:00.0")
    tree.link("dev/link", "/dev/elsewhere")
    tree.write("dev/other", "")
    tree.write("sys/dev/char/241:7/uevent", "DEVNAME=other\n")
    tree.write("run/udev/data/c226:0", "")
    facts = HostCache(tree.root)
    ask(facts)
    for stale in (Stale(), Stale(all_files=True), Stale(paths={"/dev/dri/card0"})):
        assert [item for item in news if not facts.concerns(item)] == []
        assert [entry for entry in FOREIGN if facts.concerns(entry)] == []
        facts.forget(stale)
        ask(facts)


@pytest.mark.parametrize("stale", [Stale(), Stale(all_files=True)], ids=["timer", "files"])
@pytest.mark.parametrize(
    "pattern",
    [
        "/sys/kernel/iommu_groups/20/devices/*",
        "/sys/devices/virtual/loop0/holders/*",
        f"{GPU}/*/hwmon*",
        f"{GPU}/module/version",
    ],
)
def test_any_event_may_be_about_what_its_own_device_does_not_tell_of(
    tree: Machine, pattern: str, stale: Stale
) -> None:
    tree.link(f"{GPU[1:]}/module", "../../../module/amdgpu")
    tree.write("sys/module/amdgpu/version", "1\n")
    facts = HostCache(tree.root)
    for _ in range(2):
        facts.look(pattern)
        assert facts.concerns(FOREIGN[0])
        assert not facts.concerns("/dev/null")
        facts.forget(stale)


def test_devices_below_a_directory(tree: Machine) -> None:
    tree.write(f"{GPU[1:]}0/drm/card1/uevent", "")
    tree.link(f"{GPU[1:]}0/drm/card1/subsystem", "../../../../../class/drm")
    tree.link("sys/class/drm/card1", f"../../{GPU.removeprefix('/sys/')}0/drm/card1")
    facts = HostCache(tree.root)

    def names(found: tuple[SysDevice, ...]) -> list[str]:
        return [match.name for match in found]

    assert names(facts.below(GPU, "drm")) == ["card0"]
    assert names(facts.below(GPU, "none")) == []
    assert names(facts.below(f"{GPU}0", "drm")) == ["card1"]
    assert names(facts.members("drm")) == ["card0", "card1"]


def test_what_moves_along_with_a_device_is_read_again(tree: Machine) -> None:
    """The kernel reports the device that moves, and of nothing that belongs to it."""
    facts = HostCache(tree.root)
    (card,) = facts.members("drm")
    assert (card.syspath, facts.attribute(GPU, "vendor")) == (CARD, "0x1002")
    moved = GPU.replace("0a", "0b")
    (tree.directory / GPU[1:]).rename(tree.directory / moved[1:])
    tree.link("sys/class/drm/card0", f"../../{moved.removeprefix('/sys/')}/drm/card0")
    tree.link("sys/dev/char/226:0", f"../../{moved.removeprefix('/sys/')}/drm/card0")
    facts.forget(Stale(syspaths={GPU, moved}))
    assert facts.device(CARD) is None
    assert [member.syspath for member in facts.members("drm")] == [f"{moved}/drm/card0"]
    file = facts.files.examine("/dev/dri/card0")
    assert file is not None
    assert file.identity.syspath == f"{moved}/drm/card0"
