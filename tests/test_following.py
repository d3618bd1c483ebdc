"""Folders and links that come, go and turn are followed by events alone."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.inotify import ENTRIES, FolderWatch, Shortage
from tests.devices.making import healthy, resource
from tests.fixtures.make_tree import Tree, serial_node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from genericdp.devices.decide import Decision
    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Resource


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return serial_node(tmp_path)


class Follower:
    """Looks again whenever a folder that the last pass named changes, and at no other time."""

    def __init__(self, tree: Tree, *resources: Resource) -> None:
        self._tree = tree
        self._resources = resources
        self._changed = asyncio.Event()
        self._watch = FolderWatch(lambda *_: self._changed.set(), what="test", shortage=Shortage())
        self._discovery = self._look({})

    def _look(self, previous: Mapping[str, DeviceList]) -> Decision:
        while True:
            self._changed.clear()
            host = HostCache(self._tree.root)
            found = decide(self._resources, host, node_name="n", previous=previous, now=0.0)
            folders = {self._tree.root.real(one): ENTRIES for one in host.folders}
            if not self._watch.set_folders(folders):
                return found

    async def sees(self, name: str, ids: list[str]) -> None:
        async with asyncio.timeout(60):
            while healthy(self._discovery.lists, name) != ids:
                await self._changed.wait()
                self._discovery = self._look(self._discovery.lists)

    def close(self) -> None:
        self._watch.close()


async def test_folders_that_come_and_go_are_followed_by_events_alone(tree: Tree) -> None:
    """D3: a plugged device is never seen."""
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
    """D3: udev may leave a link alone while its target goes and returns."""
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
