"""Directories that do not answer, and events during a scan."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from genericdp.devices.inventory import Inventory
from genericdp.host.cache import HostCache, HostReader
from genericdp.host.events import Uevent

from tests.cases.machine import Machine
from tests.decisions import Discoverer
from tests.devices.making import healthy, resource, unhealthy
from tests.fixtures.hanging import HangingRoot

SERIAL = resource("serial", "/dev/ttyUSB*")
INPUT = resource("input", "/dev/input/*")


@pytest.fixture
def tree(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for number in range(2):
        machine.node(f"ttyUSB{number}", f"188:{number}", at="virtual/tty")
    for number in (0, 1, 10):
        machine.node(f"input/event{number}", f"13:{64 + number}", at=f"virtual/input/input{number}")
    return machine


async def test_a_directory_that_hangs_concerns_its_devices_alone_until_it_answers(
    tree: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    again = asyncio.Event()
    root = HangingRoot(tree.directory)
    discoverer = Discoverer(root, look_again=again.set, look_seconds=0.5)
    first = await discoverer.discover([SERIAL, INPUT], {})
    assert healthy(first.lists, "input") == ["event0", "event1", "event10"]

    root.hanging = {"/dev/input"}
    tree.remove("dev/ttyUSB1")
    async with asyncio.timeout(60):
        second = await discoverer.discover([SERIAL, INPUT], first.lists)
    reason = "reading /dev/input/* timed out"
    names = ["event0", "event1", "event10"]
    assert unhealthy(second.lists, "input") == dict.fromkeys(names, reason)
    assert healthy(second.lists, "serial") == ["ttyUSB0"], "changes elsewhere are still seen"

    asked = root.asked["/dev/input"]
    async with asyncio.timeout(60):
        third = await discoverer.discover([SERIAL, INPUT], second.lists)
    assert root.asked["/dev/input"] == asked, "one thread hangs there, not one more each pass"
    assert unhealthy(third.lists, "input") == dict.fromkeys(names, reason)

    assert not again.is_set()
    root.answer()
    async with asyncio.timeout(60):
        await again.wait()
    fourth = await discoverer.discover([SERIAL, INPUT], third.lists)
    assert healthy(fourth.lists, "input") == names
    assert [record.getMessage() for record in caplog.records] == [
        "reading /dev/input/* timed out; continuing without it",
        "reading /dev/input/* has ended",
    ]


async def test_a_changed_file_that_hangs_hides_no_other_change(tree: Machine) -> None:
    root = HangingRoot(tree.directory)
    discoverer = Discoverer(root, look_seconds=0.5)
    found = await discoverer.discover([SERIAL], {})
    assert healthy(found.lists, "serial") == ["ttyUSB0", "ttyUSB1"]
    root.hanging = {"/dev/elsewhere"}
    try:
        for gone in ("ttyUSB0", "ttyUSB1"):
            tree.remove(f"dev/{gone}")
            discoverer.mark_file("/dev/elsewhere")
            discoverer.mark_event(Uevent(action="add", syspath="/sys/devices/other"))
            discoverer.mark_file(f"/dev/{gone}")
            found = await discoverer.discover([SERIAL], found.lists, full=False)
            assert gone in unhealthy(found.lists, "serial")
    finally:
        root.answer()


async def test_what_is_told_during_a_look_counts_if_it_is_about_what_that_has_read(
    tree: Machine,
) -> None:
    """Before a scan ends, it is unknown which files it will read."""
    loop, woken = asyncio.get_running_loop(), 0

    def wake() -> None:
        nonlocal woken
        woken += 1

    reader = HostReader(tree.root, look_again=wake)

    async def look(path: str) -> int:
        def work(host: HostCache) -> None:
            asyncio.run_coroutine_threadsafe(tell(path), loop).result()
            host.look("/dev/ttyUSB*")

        before = woken
        await reader.ask(lambda: work)
        return woken - before

    async def tell(path: str) -> None:
        reader.mark_file(path)

    assert await look("/dev/ttyUSB7") == 1
    assert await look("/dev/other") == 0
    reader.mark_file("/dev/other")
    assert woken == 1


async def test_a_device_whose_node_is_met_first_still_waits_for_its_record(tree: Machine) -> None:
    """Nothing had asked about the device at the event of the kernel; its node made it one."""
    now, new = 0.0, "/sys/devices/virtual/tty/ttyUSB7"
    tree.write("run/udev/control", "")
    reader = HostReader(tree.root, look_again=lambda: None, now=lambda: now)

    def work(host: HostCache) -> list[str]:
        found = (file.identity.syspath or "" for file in Inventory(host).found("/dev/ttyUSB*"))
        return [syspath for syspath in found if host.awaited(syspath)]

    async def awaited() -> tuple[list[str], float | None]:
        return await reader.ask(lambda: work, full=False, wants_records=True), reader.due

    assert await awaited() == ([], None)
    tree.node("ttyUSB7", "188:7", at="virtual/tty")
    reader.mark_file("/dev/ttyUSB7")
    for syspath in (new, "/sys/devices/virtual/misc/other"):
        reader.mark_event(Uevent(action="add", syspath=syspath, subsystem="misc"))
    assert await awaited() == ([new], 2.0)
    now = 2.0
    assert await awaited() == ([], None)
    reader.mark_event(Uevent(action="add", syspath="/sys/devices/virtual/misc/other"))
    assert await awaited() == ([], None), "nothing is asked about it"


async def test_what_hangs_after_something_else_is_given_up_sooner(
    tree: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten mounts of a missing server took 50 s."""
    root = HangingRoot(tree.directory, "/mnt/a", "/mnt/b", "/mnt/c")
    discoverer = Discoverer(root, look_seconds=3)
    try:
        found = await discoverer.discover([resource("mnt", "/mnt/a", "/mnt/b", "/mnt/c")], {})
        assert healthy(found.lists, "mnt") == []
    finally:
        root.answer()
    first, second, third = (record.created for record in caplog.records)
    assert third - second < 3 > second - first
