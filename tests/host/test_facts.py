from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import pytest
from genericdp.cli.patience import run_skipping_hangs
from genericdp.host.cache import HostCache, Stale
from genericdp.host.events import Uevent
from genericdp.template import MAX_TEXT

from tests.cases.machine import Machine
from tests.fixtures.hanging import HangingRoot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.devices.inventory import SysDevice

T = TypeVar("T")

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


def test_texts_are_stripped_and_remembered_until_their_device_is_forgotten(tree: Machine) -> None:
    facts = HostCache(tree.root)
    assert facts.attribute(GPU, "vendor") == "0x1002"
    assert facts.text("/proc/driver/information") == "Minor: 3"
    tree.write(f"{GPU[1:]}/vendor", "0x10de\n")
    tree.write("proc/driver/information", "Minor: 4\n")
    facts.forget(Stale(syspaths={CARD}))
    assert facts.attribute(GPU, "vendor") == "0x1002", "its own event will show"
    assert facts.text("/proc/driver/information") == "Minor: 4", "of files no event shows"
    facts.forget(Stale(syspaths={GPU}))
    assert facts.attribute(GPU, "vendor") == "0x10de"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(lambda path: None, "", id="not-there"),
        pytest.param(lambda path: path.mkdir(), "it is a directory, not a file", id="a-directory"),
        pytest.param(os.mkfifo, "it is a FIFO, not a file", id="pipe"),
        pytest.param(
            lambda path: path.symlink_to(path.name), "Too many levels of symbolic links", id="loop"
        ),
        pytest.param(lambda path: path.write_text("x" * MAX_TEXT), None, id="64-kib"),
        pytest.param(
            lambda path: path.write_text("x" * MAX_TEXT + "x"),
            "it has more than 64 KiB (a value with file and regex can take a part of it)",
            id="more-than-64-kib",
        ),
        pytest.param(lambda path: path.write_bytes(b"\xff\x00"), None, id="binary"),
    ],
)
def test_what_cannot_be_read_is_lacking_with_the_reason(
    tree: Machine, make: Callable[[Path], None], why: str | None
) -> None:
    make(tree.directory / GPU[1:] / "strange")
    facts = HostCache(tree.root)
    assert (facts.attribute(GPU, "strange") is None) == (why is not None)
    assert facts.why_unreadable(f"{GPU}/strange") == (why or "")


def answers(tree: Machine, hanging: str, ask: Callable[[HostCache], T]) -> T:
    """Return what is answered where one file hangs."""
    root = HangingRoot(tree.directory, hanging)
    try:
        return run_skipping_hangs(root, ask, look_seconds=0.2)
    finally:
        root.answer()


def test_a_read_that_hangs_is_lacking_too(tree: Machine) -> None:
    (tree.directory / GPU[1:] / "serial").write_text("1")

    def ask(facts: HostCache) -> tuple[str | None, str, str | None]:
        serial = facts.attribute(GPU, "serial")
        return serial, facts.why_unreadable(f"{GPU}/serial"), facts.attribute(GPU, "vendor")

    found = answers(tree, f"{GPU}/serial", ask)
    assert found == (None, "reading it timed out", "0x1002")


def test_a_uevent_that_hangs_leaves_its_device_without_properties(tree: Machine) -> None:
    def ask(facts: HostCache) -> tuple[SysDevice | None, list[str], str]:
        card, members = facts.device(CARD), [member.syspath for member in facts.members("drm")]
        return card, members, facts.why_unreadable(f"{CARD}/uevent")

    card, members, why = answers(tree, f"{CARD}/uevent", ask)
    assert card is not None
    assert (card.subsystem, card.number) == ("drm", None)
    assert members == [CARD]
    assert why == "reading it timed out"


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


def test_an_attribute_of_what_sits_on_a_device_is_read_again_when_that_comes(tree: Machine) -> None:
    facts = HostCache(tree.root)
    assert facts.attribute(GPU, "net/ib0/address") is None
    tree.write(f"{GPU[1:]}/net/ib0/uevent", "")
    tree.write(f"{GPU[1:]}/net/ib0/address", "00:01\n")
    facts.forget(Stale(syspaths={f"{GPU}/net/ib0"}))
    assert facts.attribute(GPU, "net/ib0/address") == "00:01"


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
        pytest.param(
            lambda facts: facts.device(CARD), [event(CARD, "drm"), event(GPU, "pci")], id="device"
        ),
        pytest.param(lambda facts: facts.device(f"{GPU}/x"), [event(f"{GPU}/x", "y")], id="none"),
        pytest.param(
            lambda facts: facts.members("drm"),
            [event(f"{GPU}/drm/card1", "drm"), event(f"{GPU}/drm/card1", ""), "c226:0"],
            id="devices of a subsystem",
        ),
        pytest.param(
            lambda facts: facts.attribute(CARD, "device/vendor"), [event(GPU, "pci")], id="link"
        ),
        pytest.param(
            lambda facts: facts.attribute(GPU, "drm/card1/dev"),
            [event(f"{GPU}/drm/card1", "drm"), event(GPU, "pci")],
            id="attribute of what is not there",
        ),
        pytest.param(
            lambda facts: facts.attribute(f"{GPU}/aer", "vendor"),
            [event(f"{GPU}/aer", "pcie")],
            id="attribute of what no one read",
        ),
        pytest.param(
            lambda facts: facts.text("/sys/devices/system/cpu/online"),
            [event("/sys/devices/system/cpu/cpu1", "cpu")],
            id="text",
        ),
        pytest.param(
            lambda facts: facts.look("/sys/class/drm/card*"),
            [event("/sys/devices/virtual/card1", "drm"), event(CARD, "drm")],
            id="glob over a class",
        ),
        pytest.param(
            lambda facts: facts.look("/dev/dri/card*"),
            ["/dev/dri/card0", "/dev/dri/card1", "/dev/dri", event(CARD, "drm"), event(GPU, "pci")],
            id="glob",
        ),
        pytest.param(
            lambda facts: facts.look("/dev/by-path/*"),
            ["/dev/by-path", "/dev/by-path/x"],
            id="glob in no directory",
        ),
        pytest.param(
            lambda facts: facts.look("/dev/link"), ["/dev/link", "/dev/elsewhere"], id="dangling"
        ),
        pytest.param(
            lambda facts: facts.realpath("/dev/link/x"),
            ["/dev/link", "/dev/elsewhere"],
            id="real path",
        ),
        pytest.param(lambda facts: facts.target("/dev/link"), ["/dev/link"], id="target"),
        pytest.param(
            lambda facts: facts.look("/dev/other"),
            [event("/sys/devices/virtual/other", "x", (241, 7))],
            id="node that sysfs does not know",
        ),
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


@pytest.mark.parametrize(
    "pattern",
    [
        "/sys/kernel/iommu_groups/20/devices/*",
        "/sys/devices/virtual/loop0/holders/*",
        "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme*",
        f"{GPU}/*/hwmon*",
    ],
)
def test_any_event_may_be_about_what_its_own_device_does_not_tell_of(
    tree: Machine, pattern: str
) -> None:
    facts = HostCache(tree.root)
    facts.look(pattern)
    assert facts.concerns(FOREIGN[0])
    assert not facts.concerns("/dev/null")


@pytest.mark.parametrize("stale", [Stale(), Stale(all_files=True)], ids=["timer", "files"])
def test_so_it_is_once_the_text_of_such_a_file_is_known(tree: Machine, stale: Stale) -> None:
    tree.link(f"{GPU[1:]}/module", "../../../module/amdgpu")
    tree.write("sys/module/amdgpu/version", "1\n")
    facts = HostCache(tree.root)
    for _ in range(2):
        assert facts.attribute(GPU, "module/version") == "1"
        assert facts.concerns(FOREIGN[0])
        facts.forget(stale)


def test_the_last_of_several_records_that_go_concerns_every_device(tree: Machine) -> None:
    names = ("c1:3", "c1:5", "c1:7")
    for name in names:
        tree.write(f"run/udev/data/{name}", "")
    facts = HostCache(tree.root)
    assert facts.device(CARD) is not None
    for name in names:
        tree.remove(f"run/udev/data/{name}")
    assert [facts.concerns(name) for name in names] == [False, False, True]
    facts.forget(Stale(records={names[-1]}))
    assert "there are no records" in facts.why_unreadable(CARD)


def test_a_new_subsystem_concerns_who_looks_at_all_of_them(tree: Machine) -> None:
    facts = HostCache(tree.root)
    assert facts.subsystems() == ("drm", "pci")
    assert facts.concerns(event("/sys/devices/virtual/new/one", "new"))
    assert not facts.concerns(event("/sys/devices/virtual/drm/one", "drm"))


def test_a_name_that_did_not_concern_anybody_is_found_by_who_asks_later(tree: Machine) -> None:
    facts = HostCache(tree.root)
    assert facts.paths("/dev/dri/render*") == ()
    tree.node("dri/card1", "226:1")
    assert not facts.concerns("/dev/dri/card1")
    facts.forget(Stale())
    assert facts.paths("/dev/dri/card*") == ("/dev/dri/card0", "/dev/dri/card1")


def test_a_file_outside_sysfs_is_read_again_after_any_event(tree: Machine) -> None:
    facts = HostCache(tree.root)
    assert facts.text("/proc/driver/information") == "Minor: 3"
    tree.write("proc/driver/information", "Minor: 4\n")
    facts.forget(Stale(paths={"/dev/other"}))
    assert facts.text("/proc/driver/information") == "Minor: 4"


def test_links_and_globs(tree: Machine) -> None:
    facts = HostCache(tree.root)
    assert facts.realpath(f"{GPU}/iommu_group") == "/sys/kernel/iommu_groups/20"
    assert facts.realpath(f"{GPU}/physfn") is None
    assert facts.paths("/sys/bus/pci/devices/*/drm/card[0-9]") == ()
    assert facts.paths(f"{GPU}/drm/card*") == (CARD,)
    assert facts.paths("/sys/kernel/iommu_groups/*/type") == ("/sys/kernel/iommu_groups/20/type",)


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


def test_an_event_of_a_device_does_not_hide_others_of_its_subsystem(tree: Machine) -> None:
    facts = HostCache(tree.root)
    card = facts.device(CARD)
    assert card is not None
    assert [ancestor.syspath for ancestor in facts.ancestors(card)] == [GPU]
    tree.write("sys/devices/pci0000:00/0000:0b:00.0/uevent", "")
    tree.link("sys/devices/pci0000:00/0000:0b:00.0/subsystem", "../../../bus/pci")
    tree.link("sys/bus/pci/devices/0000:0b:00.0", "../../../devices/pci0000:00/0000:0b:00.0")
    facts.forget(Stale(syspaths={GPU}))
    assert [member.name for member in facts.members("pci")] == ["0000:0a:00.0", "0000:0b:00.0"]


def test_only_a_new_device_without_a_record_is_awaited(tree: Machine) -> None:
    facts = HostCache(tree.root)
    assert not facts.awaited(CARD)
    facts.awaiting = {CARD}
    waits = facts.awaited(CARD)
    assert waits
    tree.write("run/udev/data/c226:0", "E:ID_PATH=pci-0000:0a:00.0\n")
    facts.forget(Stale(records={"c226:0"}))
    assert not facts.awaited(CARD)
    device = facts.device(CARD)
    assert device is not None
    assert device.properties["ID_PATH"] == "pci-0000:0a:00.0"
