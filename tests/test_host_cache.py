"""Whatever changes: a decision from cached facts is one that reads everything."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
from genericdp.devices.decide import Decision, DeviceLists, decide
from genericdp.host.cache import HostCache, HostReader
from genericdp.host.events import Uevent
from genericdp.host.root import Root
from genericdp.model import Resource
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.cases.description import entry_of
from tests.config.loading import HEAD, loaded
from tests.devices.making import healthy, unhealthy
from tests.testbeds.loading import Entry, build_entries, record_name, remove_entry

pytestmark = pytest.mark.slow


def resources_of(entries: str) -> tuple[Resource, ...]:
    """Return the resources of a config, which must have no problems."""
    found = loaded(HEAD + entries)
    assert found.problems == ()
    return found.resources


TIED = resources_of("""
  - name: example.com/links
    match: [{path: /dev/serial/by-id/*}]
    exclude: [{path: /dev/out/*}]
    id: $(usb.serial:-none)
    inject: {devices: [{path: $(device.path)}, {path: /dev/control, optional: true}]}
    forgetAfterSeconds: 3
  - name: example.com/kinds
    match: [{udev: {subsystem: tty, properties: {ID_KIND: a*}}}]
    inject:
      devices:
        - path: $(device.path)
        - {subsystem: video4linux, optional: true}
        - {path: /dev/aux/$(device.name)*, optional: true}
      env: {SERIAL: $(usb.serial), KIND: $(property.ID_KIND)}
  - name: example.com/values
    match: [{udev: {subsystem: tty}, values: {information: "2"}}]
    values: {information: {file: /proc/driver/$(usb.port), regex: "([0-9]+)"}}
    inject: {devices: [{path: $(device.path)}], env: {I: $(value.information)}}
  - name: example.com/paths
    match: [{path: "/dev/ttyUSB[0-2]"}, {path: /dev/*/ttyUSB*}]
    exclude: [{path: /dev/out/*}]
  - name: example.com/neighbours
    match:
      - udev: {subsystem: tty, name: ttyUSB3}
        hardware: {usb: {vendor: "0403", serial: [S, T]}}
    values: {neighbour: {link: /sys/bus/usb/devices/$(usb.port)/*/video*/*}}
    inject: {devices: [{path: $(device.path)}], env: {NEAR: $(value.neighbour:-none)}}
  - name: example.com/usb
    match: [{usb: {vendor: "0403"}}]
    inject:
      devices: [{path: /dev/$(device.name), optional: true}]
      env: {NUMA: $(device.numa:-x)}
  - name: example.com/rest
    match: [{path: /dev/*}, {path: /dev/video*}]
    exclude: [{path: /dev/out/*}]
""")
PCI = "/devices/pci0000:00/0000:00:14.0"
MISC = "/devices/virtual/misc/other"
PLACES = range(4)


@dataclass(slots=True)
class Events:
    """The events of kernel, udev and inotify since the last pass."""

    of_kernel: list[Uevent] = field(default_factory=list)
    records: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)


class Changing:
    """A machine of serial adapters at the places of a hub; each method sends its events."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = Root(directory)
        self.pending = Events()
        self._plugged: dict[str, Entry] = {}
        self._known: dict[str, Entry] = {}
        for name in ("bus/usb/devices", "bus/pci/devices", "class/tty", "class/video4linux"):
            (directory / "sys" / name).mkdir(parents=True)
        for name in ("dev/serial/by-id", "dev/out", "dev/aux", "run/udev/data", "proc/driver"):
            (directory / name).mkdir(parents=True)
        self._add(MISC, "misc")
        self._add(PCI, "pci", vendor="0x8086", numa_node="0")
        self._write("sys/devices/system/node/online", "0")
        for place in PLACES:
            self.change_driver(place, "1")

    def _write(self, path: str, text: str) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def _add(self, path: str, subsystem: str, **keys: Any) -> None:
        """Add a device, with the keys that one has in the machine of a case."""
        if "node" in keys:
            (self.directory / "dev" / path.rpartition("/")[2]).unlink(missing_ok=True)
        entry = entry_of(path, {"subsystem": subsystem, **keys})
        build_entries([entry], self.directory)
        self._plugged[path] = self._known[path] = entry
        self._tell(entry)

    def _remove(self, path: str) -> None:
        if entry := self._plugged.pop(path, None):
            remove_entry(entry, self.directory)
            self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        self._event(entry.path)
        if entry.node:
            self.pending.paths |= {f"/dev/{name}" for name in (entry.node, *entry.links)}
            self.pending.records.add(record_name(entry))

    def _event(self, path: str) -> None:
        entry = self._known[path]
        major, _, minor = entry.number.partition(":")
        event = Uevent(
            action="change" if path in self._plugged else "remove",
            syspath=f"/sys{path}",
            subsystem=entry.subsystem,
            number=(int(major), int(minor)) if major else None,
        )
        self.pending.of_kernel.append(event)

    def plug(self, place: int, serial: str = "S") -> None:
        """Plug a serial adapter in, with its node and its link."""
        self.unplug(place)
        number = self._free(place, place)
        device = {"serial": serial, "idVendor": "0403", "busnum": "1", "devnum": str(place + 5)}
        self._add(usb_of(place), "usb", DEVTYPE="usb_device", **device)
        self._add(interface_of(place), "usb", DEVTYPE="usb_interface")
        self._add(tty_of(place), "tty", node=number, links=[f"serial/by-id/{serial}-{place}"])

    def _free(self, place: int, minor: int) -> str:
        """Give the number, or another one if a device has it: no kernel gives it twice."""
        taken = {entry.number for entry in self._plugged.values()}
        number = f"188:{minor}"
        return number if number not in taken else f"188:{10 * (place + 1) + minor}"

    def renumber(self, place: int, minor: int) -> None:
        """Give the tty another number, as after a replug of its driver."""
        if tty := self._plugged.get(tty_of(place)):
            self._remove(tty.path)
            self._add(tty.path, "tty", node=self._free(place, minor), links=tty.links)

    def unplug(self, place: int) -> None:
        """Take an adapter away, its children first."""
        self.drop_camera(place)
        for path in (tty_of(place), interface_of(place), usb_of(place)):
            self._remove(path)

    def add_camera(self, place: int) -> None:
        """Let a second device appear on the same USB device."""
        if interface_of(place) in self._plugged:
            self.drop_camera(place)
            self._add(camera_of(place), "video4linux", node=f"81:{place}")

    def drop_camera(self, place: int) -> None:
        self._remove(camera_of(place))

    def set_attribute(self, place: int, name: str, text: str) -> None:
        """Change what the USB device says of itself, with an event of it."""
        if usb_of(place) in self._plugged:
            self._write(f"sys{usb_of(place)}/{name}", text)
            self._event(usb_of(place))

    def set_numa_node(self, node: str, online: str) -> None:
        """Change where the controller hangs, and what is online."""
        self._write(f"sys{PCI}/numa_node", node)
        self._write("sys/devices/system/node/online", online)
        self._event(PCI)

    def record(self, minor: int, text: str) -> None:
        """Let udev write what it knows of a tty; nothing: the record is removed."""
        name = f"c188:{minor}"
        (self.directory / "run/udev/data" / name).unlink(missing_ok=True)
        if text:
            self._write(f"run/udev/data/{name}", f"E:ID_KIND={text}")
        self.pending.records.add(name)

    def change_driver(self, place: int, text: str) -> None:
        """Change a file outside sysfs along with its device."""
        self._write(f"proc/driver/1-{place}", text)
        if usb_of(place) in self._known:
            self._event(usb_of(place))
        self._event(MISC)

    def change_file(self, path: str, *, there: bool) -> None:
        """Make or remove a file or a link, without an event of a device."""
        (self.directory / path).unlink(missing_ok=True)
        if there:
            self._write(path, "")
        self.pending.paths.add(f"/{path}")

    def turn(self, path: str, target: str) -> None:
        """Make a link, or turn it elsewhere."""
        if (self.directory / path).parent.is_dir():
            (self.directory / path).unlink(missing_ok=True)
            (self.directory / path).symlink_to(target)
            self.pending.paths.add(f"/{path}")

    def replace_directory(self, *, kept: bool) -> None:
        """Remove a directory of links, and perhaps make it again, empty."""
        shutil.rmtree(self.directory / "dev/serial", ignore_errors=True)
        if kept:
            (self.directory / "dev/serial/by-id").mkdir(parents=True)
        self.pending.paths.add("/dev/serial")


def usb_of(place: int) -> str:
    return f"{PCI}/usb1/1-{place}"


def interface_of(place: int) -> str:
    return f"{usb_of(place)}/1-{place}:1.0"


def tty_of(place: int) -> str:
    return f"{interface_of(place)}/ttyUSB{place}/tty/ttyUSB{place}"


def camera_of(place: int) -> str:
    return f"{interface_of(place)}/video4linux/video{place}"


class Passes:
    """The passes over a machine that changes, from cached facts."""

    def __init__(self, directory: Path, resources: Sequence[Resource] = TIED) -> None:
        self.machine = Changing(directory)
        self.resources = resources
        self.lists: DeviceLists = {}
        self.now = 0.0
        self._is_due = [True]
        self._due = inf
        root, wake = self.machine.root, partial(self._is_due.append, True)
        self._reader = HostReader(root, look_again=wake, now=lambda: self.now)

    def decided(self, host: HostCache, before: DeviceLists) -> Decision:
        return decide(self.resources, host, node_name="n", previous=before, now=self.now)

    def run(self, events: Events, *, full: bool = False) -> DeviceLists:
        """Decide if these events call for it, or time does; check that nothing was missed."""
        self.now += 1.0
        for event in events.of_kernel:
            self._reader.mark_event(event)
        for record in events.records:
            self._reader.mark_record(record)
        for path in events.paths:
            self._reader.mark_file(path)
        before = self.lists
        if full or self._is_due or self._due <= self.now:
            self._is_due.clear()
            work = partial(self.decided, before=before)
            found = asyncio.run(self._reader.ask(lambda: work, full=full))
            self.lists, self._due = found.lists, inf if found.due is None else found.due
        fresh = self.decided(HostCache(self.machine.root), before)
        assert self.lists == fresh.lists
        for name, devices in self.lists.items():
            assert [*devices.devices] == [*fresh.lists[name].devices]
        again = self.decided(HostCache(self.machine.root), self.lists)
        assert again.lists == self.lists, "a scan without changes changes nothing"
        return self.lists

    def run_pending(self, *, full: bool = False) -> DeviceLists:
        """Run a pass that knows all events."""
        events, self.machine.pending = self.machine.pending, Events()
        return self.run(events, full=full)


def test_a_file_that_is_due_of_before_its_device_is_not_taken_for_an_unknown_one(
    tmp_path: Path,
) -> None:
    """D3: inotify reports a node some milliseconds before the kernel reports its device."""
    passes = Passes(tmp_path)
    passes.machine.plug(0)
    passes.run_pending()
    passes.machine.unplug(0)
    assert list(unhealthy(passes.run_pending(), "links")) == ["S"]
    passes.machine.plug(0)
    early, passes.machine.pending = passes.machine.pending, Events()
    late = [event for event in early.of_kernel if event.subsystem == "tty"]
    early.of_kernel = [event for event in early.of_kernel if event not in late]
    back = passes.run(early)
    assert healthy(back, "links") == ["S"]
    assert passes.run(Events(of_kernel=late)) == back


Change = tuple[str, dict[str, Any]]
"""A method of the machine, and its arguments."""


def change(name: str, /, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Change]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


place = st.sampled_from(PLACES)
minor = st.integers(0, 5)
files = ("ttyUSB0", "ttyUSB1", "control", "aux/ttyUSB1x", "1-0", "aux/odd", ".hidden")
links = ("out/a", "serial/by-id/x", "aux/ttyUSB9", "ttyUSB1", "loop")
targets = ("/dev/ttyUSB0", "/dev/ttyUSB1", "/dev/nothing", "/dev/loop")
CHANGES = (
    change("plug", place=place, serial=st.sampled_from("STx")),
    change("unplug", place=place),
    change("renumber", place=place, minor=minor),
    change("add_camera", place=place),
    change("drop_camera", place=place),
    change("set_attribute", place=place, name=st.just("serial"), text=st.sampled_from("ST")),
    change("set_attribute", place=place, name=st.just("idVendor"), text=st.just("1a86")),
    change(
        "set_numa_node",
        node=st.sampled_from(["0", "1", "-1"]),
        online=st.sampled_from(["0", "0-1"]),
    ),
    change("record", minor=minor, text=st.sampled_from(["", "a", "ab", "b"])),
    change("change_driver", place=place, text=st.sampled_from("123")),
    change("change_file", path=st.sampled_from(files).map("dev/{}".format), there=st.booleans()),
    change(
        "turn", path=st.sampled_from(links).map("dev/{}".format), target=st.sampled_from(targets)
    ),
    change("replace_directory", kept=st.booleans()),
)


@pytest.mark.parametrize("resources", [TIED, TIED[:-1]], ids=["all files", "some files"])
@example(  # the only record goes while a listed device may be of the resource before
    batches=[
        [("record", {"minor": 2, "text": "a"})],
        [("plug", {"place": 1, "serial": "S"}), ("plug", {"place": 2, "serial": "S"})],
        [("replace_directory", {"kept": False})],
        [("plug", {"place": 2, "serial": "S"})],
    ],
    full=set(),
)
@example(  # the first record is written after an event of a missing one
    batches=[
        [("plug", {"place": 0})],
        [("record", {"minor": 5, "text": ""})],
        [("record", {"minor": 2, "text": "a"})],
    ],
    full=set(),
)
@settings(max_examples=examples(15), deadline=None)
@given(
    batches=st.lists(st.lists(st.one_of(*CHANGES), max_size=6), max_size=12),
    full=st.sets(st.integers(0, 12)),
)
def test_a_decision_from_cached_facts_is_one_that_reads_everything(
    resources: Sequence[Resource], batches: list[list[Change]], full: set[int]
) -> None:
    """Several things change at once between two passes, of which those in ``full`` read all."""
    with tempfile.TemporaryDirectory() as directory:
        passes = Passes(Path(directory), resources)
        for number, changes in enumerate(batches):
            for name, arguments in changes:
                getattr(passes.machine, name)(**arguments)
            passes.run_pending(full=number in full)


@pytest.mark.parametrize(
    ("content", "is_read"),
    [
        *((b"x" * 65_536, True), (b"\xff" * 65_536, True), (b"x" * 65_537, False)),
        *((("é" * 32_768).encode(), True), (("é" * 32_769).encode(), False)),
    ],
)
def test_the_limit_of_a_text_is_in_bytes(tmp_path: Path, content: bytes, is_read: bool) -> None:
    """Else what is cut off would pass for the whole."""
    (tmp_path / "file").write_bytes(content)
    host = HostCache(Root(tmp_path))
    text = content.decode(errors="backslashreplace") if is_read else None
    assert host.text("/file") == text
    assert host.why_unreadable("/file").startswith("" if is_read else "it has more than 64 KiB")
    assert bool(host.why_unreadable("/file")) is not is_read
