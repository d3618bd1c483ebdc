"""Looking again: unreadable is not missing, and time alone has only read what is due."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from genericdp.devices.decide import DeviceLists
from genericdp.errors import HostError
from genericdp.gate import why_unusable
from genericdp.host.root import Root
from genericdp.model import Resource

from tests.cases.machine import Machine
from tests.decisions import Discoverer
from tests.devices.making import resource
from tests.polling import poll_until
from tests.resource_limits import forbidden, spare_descriptors

SERIAL = resource("serial", "/dev/serial/*")
OTHER = resource("other", "/dev/null*")


class Looking:
    """Scans a tree at each call, on a clock of its own; ``listed``: the directories it listed."""

    def __init__(self, tree: Machine) -> None:
        self.now = 1000.0
        self._due: float | None = None
        self.lists: DeviceLists = {}
        self.listed = listed = list[str]()

        class Counted(Root):
            def entries(self, path: str) -> list[str]:
                listed.append(path)
                return super().entries(path)

        self.reader = Discoverer(Counted(tree.directory), now=lambda: self.now)

    async def states(self, *wanted: Resource, full: bool = True) -> dict[str, str]:
        """Look, and return the state of each device; empty: healthy."""
        self.listed.clear()
        found = await self.reader.discover(wanted or (SERIAL, OTHER), self.lists, full=full)
        self.lists, self._due = found.lists, found.due
        return {
            device_id: entry.text
            for offer in found.lists.values()
            for device_id, entry in offer.devices.items()
        }

    def due_in(self) -> float | None:
        """Return after how many seconds to look again; None: only after an event."""
        return None if self._due is None else self._due - self.now


@pytest.fixture
def looking(short_directory: Path) -> Looking:
    tree = Machine(short_directory)
    for number in range(3):
        tree.node(f"serial/s{number}", f"188:{number}")
    tree.node("null", "1:3")
    return Looking(tree)


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
        assert looking.due_in() is not None
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
    tree = Machine(short_directory)
    for place, number in (("serial", 0), ("bus/1", 1)):
        tree.node(f"{place}/s{number}", f"188:{number}")
    looking, wanted = Looking(tree), resource("serial", glob)
    before = await looking.states(wanted)
    assert len(before) == 1
    with forbidden(short_directory / directory, 0o444):
        assert await looking.states(wanted) == before
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


async def test_what_cannot_be_read_is_looked_at_alone_and_ever_more_rarely(
    looking: Looking, short_directory: Path
) -> None:
    before, waits = await looking.states(), []
    assert looking.due_in() is None
    with forbidden(short_directory / "dev/serial"):
        await looking.states()
        for _ in range(6):
            waits.append(looking.due_in() or 0)
            looking.now += waits[-1]
            assert await looking.states(full=False) == before
            assert looking.listed == ["/dev/serial"]
    assert waits == [2, 4, 8, 16, 30, 30]
    await looking.states(full=False)
    assert looking.due_in() is None, "it can be read again"
    with forbidden(short_directory / "dev/serial"):
        await looking.states()
        assert looking.due_in() == 2, "the next trouble may be over soon"
        looking.now += 1.5
        looking.reader.mark_file("/dev/null")
        await looking.states(full=False)
        assert looking.due_in() == 0.5, "an event does not put it off"
