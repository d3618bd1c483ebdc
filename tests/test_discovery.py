"""One pass from the host to the offers, and what happens when a folder does not answer."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from genericdp.discovery import Discoverer, discover
from genericdp.host.devicefiles import Looker
from genericdp.inotify import FolderWatch
from tests.devices.making import healthy, inject, nodes, refusals, resource, unhealthy
from tests.fixtures.make_tree import Tree, add_adapter, serial_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from genericdp.devices.inventory import Look
    from genericdp.devices.offers import Offer
    from genericdp.discovery import Discovery
    from genericdp.host.root import Root
    from genericdp.model import Resource

SERIAL = resource("serial", "/dev/ttyUSB*")
INPUT = resource("input", "/dev/input/*")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return serial_node(tmp_path)


def look(
    tree: Tree,
    *resources: Resource,
    previous: Mapping[str, Offer] | None = None,
    now: float = 0.0,
) -> Discovery:
    return discover(
        resources, Looker(tree.root).look, node_name="n", previous=previous or {}, now=now
    )


def test_a_pass_finds_the_devices_of_every_resource(tree: Tree) -> None:
    offers = look(tree, SERIAL, INPUT).offers
    assert healthy(offers, "serial") == ["ttyUSB0", "ttyUSB1"]
    assert healthy(offers, "input") == ["event0", "event1", "event10"]


def test_a_stick_in_another_port_keeps_its_link_and_id(tree: Tree) -> None:
    by_id = resource("serial", "/dev/serial/by-id/*")
    first = look(tree, by_id)
    name = "serial_by-id_usb-FTDI_A10K5UHJ-if00-port0"
    tree.remove("dev/ttyUSB0")
    gone = look(tree, by_id, previous=first.offers, now=1.0)
    assert list(unhealthy(gone.offers, "serial")) == [name]
    add_adapter(tree, 2, "A10K5UHJ")
    back = look(tree, by_id, previous=gone.offers, now=2.0)
    assert name in healthy(back.offers, "serial")
    assert unhealthy(back.offers, "serial") == {}
    device = back.offers["example.com/serial"].offered[name].device
    assert device.nodes[0].identity.device_number == (188, 2)


def test_each_glob_is_looked_at_once_in_a_pass_and_a_device_itself_not_again(tree: Tree) -> None:
    looked: list[str] = []
    looker = Looker(tree.root)

    def counting(pattern: str) -> Look:
        looked.append(pattern)
        return looker.look(pattern)

    given = inject(nodes("$(device.path)"), nodes("/dev/snd/*"), nodes("/dev/$(device.name)-aux"))
    resources = [resource(name, "/dev/ttyUSB*", given=given) for name in "ab"]
    discover(resources, counting, node_name="n", previous={}, now=0.0)
    assert sorted(looked) == ["/dev/snd/*", "/dev/ttyUSB*", "/dev/ttyUSB0-aux", "/dev/ttyUSB1-aux"]


def test_a_pass_says_where_to_watch_when_to_come_back_and_what_found_nothing(tree: Tree) -> None:
    none = resource("none", "/dev/none/*", "/dev/ttyUSB0", given=inject(nodes("/dev/caps/x")))
    first = look(tree, SERIAL, none)
    assert first.folders == {"/dev"}
    assert first.due is None
    assert first.empty_globs == (("example.com/none", "/dev/none/*"),)
    tree.remove("dev/ttyUSB1")
    second = look(tree, SERIAL, none, previous=first.offers, now=7.0)
    assert second.due == 307.0


def test_a_glob_that_hangs_is_not_one_that_found_nothing(tree: Tree) -> None:
    del tree
    found = discover([SERIAL], lambda _: None, node_name="n", previous={}, now=0.0)
    assert found.empty_globs == ()


class Gate:
    """Looks that hang as long as it is shut; the rest is the real thing."""

    def __init__(self, *patterns: str) -> None:
        self.open = threading.Event()
        self.open.set()
        self.patterns = patterns
        self.looked: list[str] = []

    def looker(self, root: Root) -> Looker:
        gate = self

        class Gated(Looker):
            def look(self, pattern: str) -> Look:
                gate.looked.append(pattern)
                if pattern in gate.patterns:
                    gate.open.wait(20)
                return super().look(pattern)

        return Gated(root)


def discoverer_of(tree: Tree, gate: Gate, look_again: Callable[[], None]) -> Discoverer:
    return Discoverer(
        tree.root, node_name="n", look_again=look_again, look_seconds=0.5, looker=gate.looker
    )


async def test_a_folder_that_hangs_concerns_its_devices_alone_until_it_answers(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    again = asyncio.Event()
    gate = Gate("/dev/input/*")
    discoverer = discoverer_of(tree, gate, again.set)
    first = await discoverer.discover([SERIAL, INPUT], {})
    assert healthy(first.offers, "input") == ["event0", "event1", "event10"]

    gate.open.clear()
    tree.remove("dev/ttyUSB1")
    async with asyncio.timeout(5):
        second = await discoverer.discover([SERIAL, INPUT], first.offers)
    reason = "looking at /dev/input/* does not end"
    names = ["event0", "event1", "event10"]
    assert unhealthy(second.offers, "input") == dict.fromkeys(names, reason)
    assert healthy(second.offers, "serial") == ["ttyUSB0"], "changes elsewhere are still seen"

    gate.looked.clear()
    async with asyncio.timeout(5):
        third = await discoverer.discover([SERIAL, INPUT], second.offers)
    assert "/dev/input/*" not in gate.looked, "one thread hangs there, not one more each pass"
    assert unhealthy(third.offers, "input") == dict.fromkeys(names, reason)

    assert not again.is_set()
    gate.open.set()
    async with asyncio.timeout(5):
        await again.wait()
    fourth = await discoverer.discover([SERIAL, INPUT], third.offers)
    assert healthy(fourth.offers, "input") == names
    assert [record.getMessage() for record in caplog.records] == [
        "looking at /dev/input/* does not end: going on without it",
        "looking at /dev/input/* has ended",
    ]


async def test_a_node_to_inject_that_hangs_makes_its_device_unhealthy(tree: Tree) -> None:
    gate = Gate("/dev/snd/ttyUSB1")
    given = inject(nodes("$(device.path)"), nodes("/dev/snd/$(device.name)", optional=True))
    one = resource("serial", "/dev/ttyUSB*", given=given)
    required = resource("input", "/dev/input/event0", given=inject(nodes("/dev/snd/ttyUSB1")))
    again = asyncio.Event()
    discoverer = discoverer_of(tree, gate, again.set)
    gate.open.clear()
    found = await discoverer.discover([one, required], {})
    assert healthy(found.offers, "serial") == ["ttyUSB0", "ttyUSB1"]
    assert unhealthy(found.offers, "input") == {
        "event0": "looking at /dev/snd/ttyUSB1 does not end"
    }
    gate.open.set()
    async with asyncio.timeout(5):
        await again.wait()


async def test_two_folders_that_hang_are_both_left_alone(tree: Tree) -> None:
    gate = Gate("/dev/input/*", "/dev/snd/*")
    resources = [SERIAL, INPUT, resource("snd", "/dev/snd/*")]
    ended = asyncio.Event()
    discoverer = discoverer_of(tree, gate, ended.set)
    gate.open.clear()
    found = await discoverer.discover(resources, {})
    assert healthy(found.offers, "serial") == ["ttyUSB0", "ttyUSB1"]
    assert healthy(found.offers, "input") == healthy(found.offers, "snd") == []
    gate.open.set()
    async with asyncio.timeout(5):
        while healthy(found.offers, "snd") == [] or healthy(found.offers, "input") == []:
            await ended.wait()
            ended.clear()
            found = await discoverer.discover(resources, found.offers)


async def test_a_pass_that_is_cancelled_leaves_nothing_behind(tree: Tree) -> None:
    gate = Gate("/dev/ttyUSB*")
    gate.open.clear()
    discoverer = discoverer_of(tree, gate, lambda: None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await discoverer.discover([SERIAL], {})
    gate.open.set()


async def test_a_mistake_of_ours_in_a_pass_is_raised(tree: Tree) -> None:
    def broken(root: Root) -> Looker:
        looker = Looker(root)
        looker.look = lambda _: 1 // 0  # type: ignore[assignment, method-assign, return-value]
        return looker

    discoverer = Discoverer(tree.root, node_name="n", look_again=lambda: None, looker=broken)
    with pytest.raises(ZeroDivisionError):
        await discoverer.discover([SERIAL], {})


class Follower:
    """Looks again whenever a folder that the last pass named changes, and at no other time."""

    def __init__(self, tree: Tree, *resources: Resource) -> None:
        self._tree = tree
        self._resources = resources
        self._changed = asyncio.Event()
        self._watch = FolderWatch(self._changed.set, what="test")
        self._discovery = self._look({})

    def _look(self, previous: Mapping[str, Offer]) -> Discovery:
        while True:
            self._changed.clear()
            found = look(self._tree, *self._resources, previous=previous)
            if not self._watch.set_folders([self._tree.root.real(one) for one in found.folders]):
                return found

    async def sees(self, name: str, ids: list[str]) -> None:
        async with asyncio.timeout(5):
            while healthy(self._discovery.offers, name) != ids:
                await self._changed.wait()
                self._discovery = self._look(self._discovery.offers)

    def close(self) -> None:
        self._watch.close()


async def test_folders_that_come_and_go_are_followed_by_events_alone(tree: Tree) -> None:
    """D3: a plugged device is never seen.

    Brought back by ``path`` instead of ``deepest`` in ``Looker._folders_on_the_way``: what does
    not exist cannot be watched.
    """
    follower = Follower(tree, resource("x", "/dev/new/by-id/*"))
    dev = tree.folder / "dev"
    try:
        await follower.sees("x", [])
        (dev / "new").mkdir()
        (dev / "new/by-id").mkdir()
        tree.link("dev/new/by-id/a", "../../ttyUSB0")
        await follower.sees("x", ["new_by-id_a"])
        shutil.rmtree(dev / "new")
        await follower.sees("x", [])
        tree.link("dev/other/by-id/b", "../../ttyUSB1")
        (dev / "other").rename(dev / "new")
        await follower.sees("x", ["new_by-id_b"])
        tree.link("dev/third/c", "../../ttyUSB0")
        (dev / "new/by-id").rename(dev / "old")
        (dev / "third").rename(dev / "new/by-id")
        await follower.sees("x", ["new_by-id_c"])
    finally:
        follower.close()


async def test_what_a_dangling_link_leads_to_is_seen_when_it_comes(tree: Tree) -> None:
    """D3: udev may leave a link alone while its target goes and returns.

    Brought back by leaving ``found is None`` out of ``Looker.look``.
    """
    tree.link("dev/mine/modem", "../slot/ttyUSB9")
    follower = Follower(tree, resource("x", "/dev/mine/*"))
    try:
        await follower.sees("x", [])
        tree.node("slot/ttyUSB9", "188:9")
        await follower.sees("x", ["mine_modem"])
        tree.remove("dev/slot/ttyUSB9")
        await follower.sees("x", [])
        tree.write("dev/slot/ttyUSB9", "")
        await follower.sees("x", ["mine_modem"])
    finally:
        follower.close()


async def test_a_link_among_the_folders_that_is_turned_is_followed(tree: Tree) -> None:
    tree.link("dev/cards/one/card", "../../ttyUSB0")
    tree.link("dev/cards/two/card", "../../ttyUSB1")
    tree.link("dev/current", "cards/one")
    follower = Follower(tree, resource("x", "/dev/current/*", id="$(device.name)"))
    try:
        await follower.sees("x", ["ttyUSB0"])
        tree.link("dev/.next", "cards/two").rename(tree.folder / "dev/current")
        await follower.sees("x", ["ttyUSB1"])
    finally:
        follower.close()


def test_a_device_is_given_once_whichever_way_it_is_reached(tree: Tree) -> None:
    """D7, D8, on files.

    Brought back by a key made of ``self.path``, or without ``owners[candidate.key] = ...``.
    """
    tree.link("dev/all", "input")
    resources = [resource("a", "/dev/all/event0"), resource("b", "/dev/input/*", "/dev/all/*")]
    found = look(tree, *resources)
    assert healthy(found.offers, "a") == ["all_event0"]
    assert healthy(found.offers, "b") == ["all_event1", "all_event10"]
    assert refusals(found.offers, "b") == {
        "/dev/all/event0": "belongs to resource example.com/a, which comes first in the config"
    }
