"""Devices of sysfs, as libudev reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.host.cache import HostCache, Stale
from genericdp.host.root import Root
from genericdp.host.sysfs import SysDevices
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.cases.machine import Machine
from tests.testbeds import loading
from tests.testbeds.telling import Told, told_by_genericdp

if TYPE_CHECKING:
    from random import Random

TELLING = (sys.executable, "-m", "tests.testbeds.telling")
BESIDE_UDEVD = str(loading.DIRECTORY / "beside_udevd")
CAN = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-3/1-3:1.0/net/can0"


def printed_by(*command: str) -> dict[str, Any]:
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, cwd=loading.DIRECTORY.parents[1]
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def told_alike(*command: str) -> Told:
    """Ask again if they differ: devices of a real machine may come and go in between."""
    answer = printed_by(*command)
    for _ in range(4):
        if answer["genericdp"] == answer["pyudev"]:
            break
        answer = printed_by(*command)
    assert answer["genericdp"] == answer["pyudev"]
    alike: Told = answer["pyudev"]
    return alike


def why_no_udevd() -> str:
    if os.geteuid() != 0:
        return "a udevd can only be started as root"
    if not os.access("/lib/systemd/systemd-udevd", os.X_OK):
        return "systemd-udevd is not installed (Debian's udev)"
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "true"],
        check=False,
        capture_output=True,
        text=True,
    )
    return f"no namespaces can be had: {tried.stderr.strip()}" if tried.returncode else ""


def test_this_machine_is_read_as_libudev_reads_it() -> None:
    assert told_alike(*TELLING)


def test_this_machine_with_a_udevd_is_read_as_libudev_reads_it() -> None:
    if reason := why_no_udevd():
        pytest.skip(reason)
    alike = told_alike(BESIDE_UDEVD, *TELLING)
    assert any(item["recorded"] for item in alike.values())
    assert any(entry["tags"] for entry in alike.values())


@pytest.mark.parametrize("name", loading.NAMES)
def test_a_testbed_and_its_copy_are_read_as_libudev_reads_it(name: str, tmp_path: Path) -> None:
    if reason := loading.why_no_umockdev():
        pytest.skip(reason)
    command = loading.umockdev_command(loading.path_of(name), tmp_path, *TELLING)
    answer = printed_by(*command)
    entries = loading.parse(loading.path_of(name).read_text())
    assert {f"/sys{entry.path}" for entry in entries} == answer["pyudev"].keys()
    assert answer["genericdp"] == answer["pyudev"]
    assert printed_by(*TELLING, str(tmp_path / "tree"))["genericdp"] == answer["pyudev"]


class _Shuffled(Root):
    """A host whose directories list their entries in another order each time."""

    def __init__(self, directory: Path, random: Random) -> None:
        super().__init__(directory)
        self._random = random

    def entries(self, path: str) -> list[str]:
        names = super().entries(path)
        self._random.shuffle(names)
        return names


@pytest.fixture(scope="module")
def webcam(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return loading.build(loading.path_of("webcam"), tmp_path_factory.mktemp("webcam"))


@given(random=st.randoms(use_true_random=False))
@settings(max_examples=examples(10))
def test_any_order_of_entries_gives_the_same(webcam: Root, random: Random) -> None:
    def in_order(root: Root) -> list[tuple[str, str]]:
        devices = SysDevices(root)
        return [(s, member.syspath) for s in devices.subsystems() for member in devices.members(s)]

    shuffled = _Shuffled(Path(webcam.real("/")), random)
    assert in_order(shuffled) == in_order(webcam)
    assert told_by_genericdp(shuffled) == told_by_genericdp(webcam)


@pytest.fixture
def adapters(tmp_path: Path) -> Root:
    return loading.build(loading.path_of("serial-adapters"), tmp_path)


def names(devices: SysDevices, subsystem: str) -> list[str]:
    return [device.name for device in devices.members(subsystem)]


def test_members_are_in_natural_order_also_after_an_event(tmp_path: Path) -> None:
    tree = Machine(tmp_path)
    for number in (10, 2, 1):
        path = f"sys/devices/virtual/tty/ttyS{number}"
        tree.write(f"{path}/uevent", "")
        tree.link(f"{path}/subsystem", "../../../../class/tty")
        tree.link(f"sys/class/tty/ttyS{number}", f"../../{path[4:]}")
    devices = SysDevices(tree.root)
    assert names(devices, "tty") == ["ttyS1", "ttyS2", "ttyS10"]
    devices.forget({"/sys/devices/virtual/tty/ttyS2"})
    assert names(devices, "tty") == ["ttyS1", "ttyS2", "ttyS10"]


def test_one_event_is_one_device_read_again(adapters: Root) -> None:
    devices = SysDevices(adapters)
    assert names(devices, "tty") == ["ttyUSB0", "ttyUSB1", "ttyUSB2", "ttyUSB3"]
    gone = devices.members("tty")[1]
    others = [member for member in devices.members("tty") if member is not gone]
    away = Path(adapters.real("/away"))
    directory = Path(adapters.real(gone.syspath))
    directory.rename(away)
    assert gone in devices.members("tty"), "it is remembered"
    devices.forget({gone.syspath})
    assert names(devices, "tty") == ["ttyUSB0", "ttyUSB2", "ttyUSB3"]
    away.rename(directory)
    devices.forget({gone.syspath})
    assert names(devices, "tty") == ["ttyUSB0", "ttyUSB1", "ttyUSB2", "ttyUSB3"]
    assert all(other in devices.members("tty") for other in others)
    assert devices.members("tty") == SysDevices(adapters).members("tty")


def test_a_record_that_is_written_later_is_found(adapters: Root) -> None:
    record = Path(adapters.real("/run/udev/data/c188:2"))
    text = record.read_bytes()
    record.unlink()
    devices = SysDevices(adapters)
    device = devices.members("tty")[2]
    assert not device.recorded
    record.write_bytes(text)
    devices.forget({device.syspath})
    assert devices.members("tty")[2].properties["ID_SERIAL_SHORT"] == "DN05FSZ9"
    record.unlink()
    devices.forget({device.syspath})
    assert not devices.members("tty")[2].recorded


def test_a_subsystem_that_is_new_is_named(adapters: Root) -> None:
    devices = SysDevices(adapters)
    assert "misc" not in devices.subsystems()
    tree = Machine(Path(adapters.real("/")))
    node = "/sys/devices/virtual/misc/fuse"
    tree.node("fuse", "10:229")
    tree.link(f"{node[1:]}/subsystem", "../../../../class/misc")
    tree.link("sys/class/misc/fuse", f"../../{node[5:]}")
    devices.forget({node})
    assert "misc" in devices.subsystems()
    assert names(devices, "misc") == ["fuse"]


@pytest.mark.parametrize(
    ("testbed", "record", "path"),
    [
        ("can", "n7", CAN),
        ("can", "+pci:0000:00:14.0", "/sys/devices/pci0000:00/0000:00:14.0"),
        ("nvme", "b259:0", "/nvme0n1"),
    ],
)
def test_a_record_that_is_written_again_is_read_again(
    tmp_path: Path, testbed: str, record: str, path: str
) -> None:
    root = loading.build(loading.path_of(testbed), tmp_path)
    host = HostCache(root)

    def renewed() -> list[str]:
        members = (each_member for name in host.subsystems() for each_member in host.members(name))
        return [member.syspath for member in members if "NEW" in member.properties]

    assert renewed() == []
    with Path(root.real(f"/run/udev/data/{record}")).open("a") as file:
        file.write("E:NEW=1\n")
    assert renewed() == [], "it is remembered"
    host.forget(Stale(records={record, "c1:99", "n", "+", ""}))
    (syspath,) = renewed()
    assert syspath.endswith(path)
