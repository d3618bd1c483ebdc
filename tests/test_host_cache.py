"""Whatever changes: a decision from cached facts is one that reads everything.

And what is on offer is what a fresh start would offer. What may depend on history: a device that
has disappeared stays listed as Unhealthy, one that is listed keeps its ID, and an ID or node that
several devices claim stays with the one that is on offer.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from genericdp.devices.decide import decide
from genericdp.devices.devicelist import NOTHING
from genericdp.host.cache import HostCache, HostReader, Stale
from genericdp.host.root import Root
from genericdp.model import DeviceNodeSelector, Selector, SysSelector, ValueKind, ValueSource
from genericdp.reasons import Code
from genericdp.template import parse
from tests.budget import examples
from tests.changing_machine import MISC, PLACES, Changing, Told, tty_of, usb_of
from tests.devices.making import healthy, inject, nodes, resource, unhealthy
from tests.selecting import hardware, udev_selector, usb_selector

if TYPE_CHECKING:
    from genericdp.devices.decide import Decision
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Resource

pytestmark = pytest.mark.slow

INFORMATION = ValueSource(
    kind=ValueKind.FILE, source=parse("/proc/driver/$(usb.port)"), regex="([0-9]+)"
)
NEIGHBOUR = ValueSource(
    kind=ValueKind.LINK, source=parse("/sys/bus/usb/devices/$(usb.port)/*/video*/*")
)


def of_tty(**keys: tuple[str, ...]) -> SysSelector:
    return udev_selector(subsystem=("tty",), **keys)  # type: ignore[arg-type]


TIED = (
    resource(
        "links",
        "/dev/serial/by-id/*",
        id="$(usb.serial:-none)",
        exclude=["/dev/out/*"],
        given=inject(nodes("$(device.path)"), nodes("/dev/control", optional=True)),
        forget_after_seconds=3,
    ),
    resource(
        "kinds",
        Selector(candidates=udev_selector(subsystem=("tty",), properties={"ID_KIND": ("a*",)})),
        given=inject(
            nodes("$(device.path)"),
            DeviceNodeSelector(subsystem="video4linux", optional=True),
            nodes("/dev/aux/$(device.name)*", optional=True),
            env={"SERIAL": "$(usb.serial)", "KIND": "$(property.ID_KIND)"},
        ),
    ),
    resource(
        "values",
        Selector(candidates=of_tty(), values={"information": ("2",)}),
        values={"information": INFORMATION},
        given=inject(nodes("$(device.path)"), env={"I": "$(value.information)"}),
    ),
    resource("paths", "/dev/ttyUSB[0-2]", "/dev/*/ttyUSB*", exclude=["/dev/out/*"]),
    resource(
        "neighbours",
        Selector(
            candidates=of_tty(name=("ttyUSB3",)),
            hardware=hardware(usb=usb_selector(vendor=("0403",), serial=("S", "T"))),
        ),
        values={"neighbour": NEIGHBOUR},
        given=inject(nodes("$(device.path)"), env={"N": "$(value.neighbour:-none)"}),
    ),
    resource(
        "usb",
        Selector(candidates=usb_selector(vendor=("0403",))),
        given=inject(nodes("/dev/$(device.name)", optional=True), env={"N": "$(device.numa:-x)"}),
    ),
    resource("rest", "/dev/*", "/dev/video*", exclude=["/dev/out/*"]),
)


LOOSE = (
    resource(
        "ttys",
        Selector(candidates=of_tty()),
        values={"information": INFORMATION},
        given=inject(
            nodes("$(device.path)"),
            DeviceNodeSelector(subsystem="video4linux", optional=True),
            env={"S": "$(usb.serial)", "I": "$(value.information:-none)"},
        ),
    ),
    resource("files", "/dev/aux/*", "/dev/out/*", id="$(device.name)", forget_after_seconds=3),
    resource("control", "/dev/control"),
)
"""Hardly anything of one device concerns another one."""


def on_offer(offer: DeviceList) -> dict[str, Device]:
    """Return what is there now, by what it is."""
    present = [one.device for one in offer.devices.values() if one.is_present]
    assert len({device.key for device in present}) == len(present)
    return {device.key: device for device in present}


def is_offer_of_a_start(offer: DeviceList, started: DeviceList, before: DeviceList) -> None:
    """Check that what is there is what a fresh start offers, but for what a listed device keeps.

    One that has been listed keeps its ID; until it is plugged in again, also its identity, though
    it may say that it has another serial number by now.
    """
    found, fresh = on_offer(offer), on_offer(started)
    assert found.keys() == fresh.keys()
    for key, device in found.items():
        formerly = [one for one in before.devices.values() if is_known_as(device, one.device)]
        stayed = [one.device for one in formerly if one.device.identity == device.identity]
        if device.id != fresh[key].id:
            assert device.id in {one.device.id for one in formerly}
        for former in stayed:
            if former.key in on_offer(before):
                assert (device.id, device.identities) == (former.id, former.identities)
        kept: dict[str, Any] = {"id": device.id, "weak_id": device.weak_id} if formerly else {}
        if stayed:
            kept["identities"] = device.identities
        assert device == replace(fresh[key], **kept)


def is_known_as(device: Device, former: Device) -> bool:
    """Return whether it is a listed device: not plugged in again, or the same hardware."""
    pairs = zip(device.identities, former.identities, strict=True)
    return device.identity == former.identity or all(one.is_same(other) for one, other in pairs)


def is_contested(*offers: DeviceList) -> bool:
    reasons = [one.code for offer in offers for one in offer.not_offered]
    return not {Code.ID_TAKEN, Code.NODE_TAKEN}.isdisjoint(reasons)


class Pass:
    """One way to run passes: what it knows, and what it has offered."""

    def __init__(self, changing: Changing, resources: tuple[Resource, ...] = TIED) -> None:
        self._root = changing.tree.root
        self._resources = resources
        self._host = HostCache(self._root)

    def run(self, told: Told, previous: dict[str, DeviceList], now: float) -> Decision:
        """As ``Discoverer`` does it, without threads."""
        stale = Stale(syspaths=told.syspaths, records=told.records, paths=told.paths)
        self._host.forget(stale)
        found = decide(self._resources, self._host, node_name="n", previous=previous, now=now)
        self._host.files.drop_outdated()
        return found

    def look_at_everything(self) -> None:
        """Have the next pass ask everything again."""
        self._host = HostCache(self._root, self._host)


def knowing_nothing(
    host: Changing,
    previous: dict[str, DeviceList],
    now: float,
    resources: tuple[Resource, ...] = TIED,
) -> Decision:
    root = host.tree.root
    return decide(
        resources,
        HostCache(root),
        node_name="n",
        previous=previous,
        now=now,
    )


def test_a_file_that_is_told_of_before_its_device_is_not_taken_for_an_unknown_one(
    tmp_path: Path,
) -> None:
    """D3: inotify tells of a node some milliseconds before the kernel tells of its device."""
    host = Changing(tmp_path)
    host.plug(0)
    one = Pass(host)
    here = one.run(host.told, {}, 0.0)
    host.told = Told()
    host.unplug(0)
    gone = one.run(host.told, here.lists, 1.0)
    host.told = Told()
    host.plug(0)
    early, late = host.told, Told(syspaths={f"/sys/{tty_of(0)}"})
    early.syspaths -= late.syspaths
    back = one.run(early, gone.lists, 2.0)
    assert back.lists == knowing_nothing(host, gone.lists, 2.0).lists
    assert list(unhealthy(gone.lists, "links")) == healthy(back.lists, "links") == ["S"]
    assert one.run(late, back.lists, 3.0).lists == back.lists


def test_a_device_keeps_its_id_while_it_is_also_listed_under_a_former_one(tmp_path: Path) -> None:
    host = Changing(tmp_path)
    links = (resource("links", "/dev/serial/by-id/*", id="$(usb.serial)"),)
    host.plug(3, serial="x")
    before = knowing_nothing(host, {}, 0.0, links).lists
    host.plug(3, serial="T")
    renamed = knowing_nothing(host, before, 1.0, links).lists
    assert list(renamed["example.com/links"].devices) == ["T", "x"]
    host.plug(2, serial="T")
    later = knowing_nothing(host, renamed, 2.0, links).lists
    owner = later["example.com/links"].devices["T"].device
    assert owner.path == "/dev/serial/by-id/T-3"


def test_a_device_keeps_its_id_whatever_serial_number_it_says_it_has(tmp_path: Path) -> None:
    host = Changing(tmp_path)
    links = (resource("links", "/dev/serial/by-id/*", id="$(usb.serial)"),)
    host.plug(3, serial="x")
    before = knowing_nothing(host, {}, 0.0, links).lists
    host.set_attribute(3, "serial", "T")
    later = knowing_nothing(host, before, 1.0, links).lists
    assert on_offer(later["example.com/links"]) == on_offer(before["example.com/links"])
    assert healthy(later, "links") == ["x"]
    assert healthy(knowing_nothing(host, {}, 1.0, links).lists, "links") == ["T"]


place = st.sampled_from(PLACES)
minor = st.integers(0, 5)


class Passes(RuleBasedStateMachine):
    """What changes between two passes is drawn at random; several things at once too."""

    resources: tuple[Resource, ...] = TIED

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.host = Changing(Path(self._folder.name))
        self.incremental = Pass(self.host, self.resources)
        self.lists: dict[str, DeviceList] = {}
        self.now = 0.0

    def teardown(self) -> None:
        self._folder.cleanup()

    @rule(place=place, serial=st.sampled_from("STx"))
    def plug(self, place: int, serial: str) -> None:
        self.host.plug(place, serial=serial)

    @rule(place=place)
    def unplug(self, place: int) -> None:
        self.host.unplug(place)

    @rule(place=place, minor=minor)
    def renumber(self, place: int, minor: int) -> None:
        self.host.renumber(place, minor)

    @rule(place=place, there=st.booleans())
    def change_camera(self, place: int, there: bool) -> None:
        (self.host.add_camera if there else self.host.drop_camera)(place)

    @rule(
        place=place,
        what=st.sampled_from([("serial", "S"), ("serial", "T"), ("idVendor", "1a86")]),
    )
    def change_attribute(self, place: int, what: tuple[str, str]) -> None:
        self.host.set_attribute(place, *what)

    @rule(node=st.sampled_from(["0", "1", "-1"]), online=st.sampled_from(["0", "0-1"]))
    def change_numa_node(self, node: str, online: str) -> None:
        self.host.set_numa_node(node, online)

    @rule(minor=minor, text=st.sampled_from(["", "a", "ab", "b"]))
    def record(self, minor: int, text: str) -> None:
        self.host.record(minor, text)

    @rule(place=place, text=st.sampled_from("123"))
    def change_outside(self, place: int, text: str) -> None:
        self.host.write_outside(place, text)

    @rule(
        name=st.sampled_from(
            ["ttyUSB0", "ttyUSB1", "control", "aux/ttyUSB1x", "1-0", "aux/odd", ".hidden"]
        ),
        there=st.booleans(),
    )
    def change_file(self, name: str, there: bool) -> None:
        (self.host.touch if there else self.host.vanish)(f"dev/{name}")

    @rule(
        name=st.sampled_from(["out/a", "serial/by-id/x", "aux/ttyUSB9", "ttyUSB1", "loop"]),
        to=st.sampled_from(["/dev/ttyUSB0", "/dev/ttyUSB1", "/dev/nothing", "/dev/loop"]),
    )
    def turn_link(self, name: str, to: str) -> None:
        if name != "serial/by-id/x" or (self.host.tree.folder / "dev/serial/by-id").is_dir():
            self.host.turn(f"dev/{name}", to)

    @rule(kept=st.booleans())
    def replace_folder(self, *, kept: bool) -> None:
        self.host.replace_folder(kept=kept)

    @rule(seconds=st.sampled_from([0.5, 2.0, 5.0]))
    def run_a_pass(self, seconds: float) -> None:
        self.now += seconds
        found = self.incremental.run(self.host.told, self.lists, self.now)
        self.host.told = Told()
        fresh = knowing_nothing(self.host, self.lists, self.now, self.resources)
        assert found.lists == fresh.lists
        for name, offer in fresh.lists.items():
            assert list(found.lists[name].devices) == list(offer.devices)
        assert found.due == fresh.due
        again = knowing_nothing(self.host, found.lists, self.now, self.resources)
        assert again.lists == found.lists, "a look at what has not changed changes nothing"
        started = knowing_nothing(self.host, {}, self.now, self.resources).lists
        if not is_contested(*found.lists.values(), *started.values()):
            for name, one in started.items():
                is_offer_of_a_start(found.lists[name], one, self.lists.get(name, NOTHING))
        self.lists = found.lists

    @rule()
    def look_at_everything(self) -> None:
        self.incremental.look_at_everything()


class LoosePasses(Passes):
    """The same, where most passes are about a few things only."""

    resources = LOOSE


class ToldPasses(Passes):
    """The same after each change, where only events tell when to look again, and at what."""

    resources = TIED[:-1]  # whose last looks at all files

    def __init__(self) -> None:
        super().__init__()
        self.is_due, self.due = True, inf
        self.reader = HostReader(
            self.host.tree.root, look_again=partial(setattr, self, "is_due", True)
        )

    def change_outside(self, place: int, text: str) -> None:
        """Such a file changes along with its device: no event tells of it alone."""

    @rule(place=place, text=st.sampled_from("123"))
    def change_driver(self, place: int, text: str) -> None:
        self.host.write_outside(place, text)
        self.host.told.syspaths ^= {MISC, f"/sys/{usb_of(place)}"}

    @rule()
    def tell_of_another(self) -> None:
        self.host.told.syspaths.add(MISC)
        self.host.touch("dev/another")

    @rule()
    def look_at_everything(self) -> None:
        self.reader.mark_event(None)

    def run_a_pass(self, seconds: float) -> None:
        """After each change: an event of another one would have all of it looked at."""

    @invariant()
    def is_up_to_date(self) -> None:
        self.now += 1.0
        for told in self.host.events():
            self.reader.mark_event(told)
        for name in self.host.told.records:
            self.reader.mark_record(name)
        for path in self.host.told.paths:
            self.reader.mark_file(path)
        self.host.told = Told()
        before = self.lists
        if self.is_due or self.due <= self.now:
            self.is_due = False
            work = partial(self.decided, before)
            found = asyncio.run(self.reader.ask(lambda: work, full=False))
            self.lists, self.due = found.lists, inf if found.due is None else found.due
        assert self.lists == self.decided(before, HostCache(self.host.tree.root)).lists

    def decided(self, before: dict[str, DeviceList], host: HostCache) -> Decision:
        return decide(self.resources, host, node_name="n", previous=before, now=self.now)


TestLoosePasses = LoosePasses.TestCase
TestLoosePasses.settings = settings(
    max_examples=examples(15), stateful_step_count=40, deadline=None
)
TestToldPasses = ToldPasses.TestCase
TestToldPasses.settings = settings(max_examples=examples(15), stateful_step_count=30, deadline=None)
TestPasses = Passes.TestCase
TestPasses.settings = settings(max_examples=examples(15), stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(
    ("content", "is_read"),
    [
        (b"x" * 65_536, True),
        (b"\xff" * 65_536, True),
        (("é" * 32_768).encode(), True),
        (b"x" * 65_537, False),
        (("é" * 32_769).encode(), False),
    ],
    ids=["ASCII", "no UTF-8", "UTF-8", "too much ASCII", "too much UTF-8"],
)
def test_the_limit_of_a_text_is_in_bytes(tmp_path: Path, content: bytes, is_read: bool) -> None:
    """Else what is cut off would pass for the whole."""
    (tmp_path / "file").write_bytes(content)
    host = HostCache(Root(tmp_path))
    text = content.decode(errors="backslashreplace") if is_read else None
    assert host.text("/file") == text
    assert host.why_unreadable("/file").startswith("" if is_read else "it has more than 64 KiB")
    assert bool(host.why_unreadable("/file")) is not is_read
