"""Unreadable is not missing: real errors, none of which is an absence."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.errors import HostError
from genericdp.host.root import Root
from genericdp.prepare import why_unusable

from tests.decisions import Discoverer
from tests.devices.making import resource
from tests.fixtures.make_tree import Tree
from tests.polling import poll_until
from tests.resource_limits import spare_descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from genericdp.devices.devicelist import DeviceList

SERIAL = resource("serial", "/dev/serial/*")
OTHER = resource("other", "/dev/null*")


class Looking:
    """A discoverer that scans a tree when called."""

    def __init__(self, tree: Tree) -> None:
        self.discoverer = Discoverer(tree.root, look_again=lambda: None)
        self.lists: Mapping[str, DeviceList] = {}

    async def states(self, *, full: bool = True) -> dict[str, str]:
        """Give the state of each device; empty: healthy."""
        found = await self.discoverer.discover((SERIAL, OTHER), self.lists, full=full)
        self.lists = found.lists
        self.due = found.due
        return {
            device_id: entry.text
            for offer in found.lists.values()
            for device_id, entry in offer.devices.items()
        }


@pytest.fixture
def looking(short_directory: Path) -> Looking:
    tree = Tree(short_directory)
    for number in range(3):
        tree.node(f"serial/s{number}", f"188:{number}")
    tree.node("null", "1:3")
    return Looking(tree)


@contextmanager
def forbidden(directory: Path, mode: int = 0) -> Iterator[None]:
    """Make a directory one that this process may not read, even as root."""
    directory.chmod(mode)
    is_root = os.geteuid() == 0
    if is_root:
        for top in (*directory.parents[:-1], directory):
            if top.stat().st_uid == 0 and top.stat().st_mode & 0o077 == 0:
                os.chown(top, 65534, -1)
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o755)


async def test_devices_whose_directory_cannot_be_read_stay_as_they_are(
    looking: Looking, short_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert await looking.states() == {"s0": "", "s1": "", "s2": "", "null": ""}
    (short_directory / "dev/serial/s2").unlink()
    gone = {"s0": "", "s1": "", "s2": "/dev/serial/s2 does not exist", "null": ""}
    assert await looking.states(full=False) != await looking.states() == gone
    (short_directory / "dev/null").unlink()
    with forbidden(short_directory / "dev/serial"):
        gone["null"] = "/dev/null does not exist"
        for full in (True, True, False, True):  # other directories are followed
            assert await looking.states(full=full) == gone
        assert looking.due is not None
    (short_directory / "dev/serial/s1").unlink()
    assert (await looking.states())["s1"] == "/dev/serial/s1 does not exist"
    assert [record.getMessage() for record in caplog.records] == [
        "/dev/serial cannot be read (Permission denied); keeping the last known state",
        "/dev/serial can be read again",
    ]


@pytest.mark.parametrize(
    ("glob", "directory"), [("/dev/serial/*", "dev/serial"), ("/dev/bus/*/s*", "dev/bus")]
)
async def test_a_directory_whose_entries_cannot_be_looked_at_is_no_empty_one(
    glob: str, directory: str, short_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a mount whose server is missing."""
    tree = Tree(short_directory)
    for place, number in (("serial", 0), ("bus/1", 1)):
        tree.node(f"{place}/s{number}", f"188:{number}")
    discoverer = Discoverer(tree.root, look_again=lambda: None)
    wanted = (resource("serial", glob),)
    before = (await discoverer.discover(wanted, {})).lists
    assert len(before["example.com/serial"].devices) == 1
    with forbidden(short_directory / directory, 0o444):
        assert (await discoverer.discover(wanted, before)).lists == before
    assert "(Permission denied); keeping the last known state" in caplog.text


async def test_without_a_descriptor_nothing_is_concluded_until_there_is_one(
    looking: Looking, caplog: pytest.LogCaptureFixture
) -> None:
    """500 resources with 1,024 descriptors."""
    caplog.set_level("INFO")
    before = await looking.states()
    with spare_descriptors(0):
        task = asyncio.get_running_loop().create_task(looking.states())
        await poll_until(lambda: caplog.records)
        assert not task.done()
    assert await task == before
    assert [record.getMessage() for record in caplog.records] == [
        "cannot read the host (Too many open files): keeping the last known state",
        "the host can be read again",
    ]


async def test_an_allocation_without_a_descriptor_does_not_say_that_the_node_is_gone(
    looking: Looking, short_directory: Path
) -> None:
    await looking.states()
    device = looking.lists[SERIAL.name].devices["s0"].device
    root = Root(short_directory)
    assert why_unusable(root, [device]) == ""
    with spare_descriptors(0):
        said = why_unusable(root, [device])
    assert said == "device s0: /dev/serial/s0 cannot be read (Too many open files)"


def test_a_directory_of_sysfs_that_cannot_be_read_any_longer_is_no_empty_one(
    short_directory: Path,
) -> None:
    root = Root(short_directory).wary()
    for name in ("class", "bus"):
        (short_directory / name / "tty").mkdir(parents=True)
    assert root.entries_if_any("/class", {}) == ["tty"]
    with forbidden(short_directory / "class"):
        with pytest.raises(HostError, match=r"/class: Permission denied"):
            root.entries_if_any("/class", {})
        assert Root(short_directory).entries_if_any("/class", {}) == []
    with forbidden(short_directory / "bus"):
        assert root.entries_if_any("/bus", {}) == [], "it never could be"
    (short_directory / "class/tty").rmdir()
    (short_directory / "class").rmdir()
    assert root.entries_if_any("/class", {}) == [], "it is missing"


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV])
def test_what_does_not_exist_is_gone(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def lstat(path: str) -> None:
        raise OSError(number, "", path)

    monkeypatch.setattr(os, "lstat", lstat)
    with pytest.raises(OSError) as raised:  # and no HostError
        Root(Path("/")).wary().lstat("/gone")
    assert raised.value.errno == number
