"""A device is made anew only where something has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from genericdp.devices.device import Device, NotOffered
from genericdp.devices.inventory import FoundFile, Inventory, Look
from genericdp.devices.making import make
from genericdp.devices.matching import NONE_EXCLUDED, Excluded, match
from genericdp.devices.remembering import Memory
from tests.devices.known import ROOT, Known
from tests.devices.making import inject, node, nodes, resource

TTY = f"{ROOT}/usb/tty"
RESOURCE = resource("r", "/dev/tty", given=inject(nodes("$(device.path)")))


class Host:
    """One node, and the same memory for each pass."""

    def __init__(self) -> None:
        self.facts, self.memory = Known(), Memory()
        self.facts.add(TTY, "tty")
        self.file: FoundFile = node("/dev/tty", (4, 1), syspath=TTY)

    def make(self, excluded: Excluded = NONE_EXCLUDED) -> Device | NotOffered:
        inventory = Inventory(lambda _: Look(files=(self.file,)), self.facts, self.memory)
        candidates = match((RESOURCE,), inventory, "n").members[RESOURCE.name]
        (one,) = make(RESOURCE, candidates, excluded, inventory, "n")
        return one


def test_the_very_same_device_as_long_as_nothing_changes() -> None:
    host = Host()
    first = host.make()
    assert isinstance(first, Device)
    assert host.make() is first
    host.memory.forget([f"{ROOT}/other"], ["/dev/other"], host.facts)
    assert host.make() is first


@pytest.mark.parametrize("told", [TTY, f"{ROOT}/usb"])
def test_an_event_of_it_or_of_what_it_sits_on_makes_it_anew(told: str) -> None:
    host = Host()
    first = host.make()
    host.memory.forget([told], [], host.facts)
    second = host.make()
    assert second is not first
    assert second == first


def test_another_file_makes_another_device() -> None:
    host = Host()
    first = host.make()
    host.file = replace(host.file, identity=replace(host.file.identity, inode=2))
    second = host.make()
    assert isinstance(second, Device)
    assert second != first


def test_what_is_excluded_now_counts() -> None:
    host = Host()
    host.make()
    without = host.make(Excluded(keys=frozenset({host.file.key})))
    assert isinstance(without, Device)
    assert without.nodes == ()
    again = host.make()
    assert isinstance(again, Device)
    assert [one.host_path for one in again.nodes] == ["/dev/tty"]
