"""The value ``linkedBy``: what it costs, and links that others can turn; else cases of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from genericdp.devices.decide import DeviceLists, decide
from genericdp.devices.inventory import FoundFile, Look
from genericdp.host.cache import HostCache
from genericdp.host.pathwalk import Walk
from genericdp.host.root import Root

from tests.cases.machine import Machine
from tests.config.loading import HEAD, loaded


def receivers(directory: Path, count: int) -> Machine:
    """Return a host of this many receivers in slots."""
    tree = Machine(directory)
    for i in range(count):
        tree.node(f"gps{i}", f"10:{i}")
        tree.link(f"sys/devices/virtual/misc/gps{i}/card", "../../../../class/slots")
        tree.link(f"sys/class/slots/slot{i}", f"../../devices/virtual/misc/gps{i}")
    return tree


def lists_of(host: HostCache, keys: str) -> DeviceLists:
    config = loaded(f"{HEAD}  - {{name: a/gps, {keys}}}\n")
    return decide(config.resources, host, node_name="n", previous={}, now=0.0).lists


@pytest.mark.parametrize("count", [16, 64])
def test_each_link_is_followed_once_for_all_devices(tmp_path: Path, count: int) -> None:
    """256 functions of a card have 256 links, which are not followed for each of them."""
    walked = []

    class Counting(Root):
        def walk(self, path: str, *, past_missing: bool = False) -> Walk:
            walked.append(path)
            return super().walk(path, past_missing=past_missing)

    values = "values: {v: {linkedBy: '$(device.syspath)/card/s*'}}, id: $(value.v)"
    host = HostCache(Counting(receivers(tmp_path, count).directory))
    devices = lists_of(host, f"match: [{{path: '/dev/gps*'}}], {values}")["a/gps"].devices
    assert sorted(devices) == sorted(f"slot{i}" for i in range(count))
    assert len(walked) < 10 * count


@pytest.mark.parametrize("count", [16, 64])
def test_links_are_gone_through_once_and_a_value_is_found_out_once_for_each_device(
    tmp_path: Path, count: int
) -> None:
    """Else 5,000 devices would have 25,000,000 links. A value may be needed in four places."""
    asked, passes = [], []

    class Counted(tuple[FoundFile, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[FoundFile]:
            passes.append(self)
            return super().__iter__()

    class Counting(HostCache):
        def look(self, pattern: str) -> Look | None:
            if (look := super().look(pattern)) is None or "slot" not in pattern:
                return look
            asked.append(pattern)
            if len(asked) == 1:
                self.of_slots = replace(look, files=Counted(look.files))
            return self.of_slots

    match = "match: [{path: '/dev/gps*', values: {v: slot*}}], groupBy: $(value.v), id: $(value.v)"
    values = "values: {v: {linkedBy: '/sys/class/slots/slot*'}}"
    lists = lists_of(Counting(receivers(tmp_path, count).root), f"{match}, {values}")
    assert sorted(lists["a/gps"].devices) == sorted(f"slot{i}" for i in range(count))
    assert len(asked) == count
    assert len(passes) == 2


def test_a_link_that_a_user_can_turn_is_not_believed(tmp_path: Path) -> None:
    """Turned away from a device, it would undo what the config excludes."""
    tree = receivers(tmp_path, 1)
    tree.link("run/slots/s1", "/sys/devices/virtual/misc/gps0").parent.chmod(0o777)
    exclude = "exclude: [{path: /dev/gps*, values: {v: s9}}]"
    values = "values: {v: {linkedBy: /run/slots/s*}}"
    found = lists_of(HostCache(tree.root), f"match: [{{path: /dev/gps*}}], {values}, {exclude}")
    said = "may be excluded, but the value 'v': /run/slots/s1 must not be read: the link /run/slots"
    (refusal,) = found["a/gps"].not_offered
    assert refusal.text.startswith(said)
