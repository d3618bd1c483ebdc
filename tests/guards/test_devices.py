"""What each of very many devices costs, in bytes and in calls of functions."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING

from genericdp.discovery import discover
from genericdp.host.devicefiles import Looker
from genericdp.known import Known, Run, Stale
from genericdp.listing import NO_LISTING, listing
from tests.world import Host, resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.devices.offers import Offer
    from genericdp.discovery import Discovery

MANY = 10_000
MOST_BYTES = 3_400
"""Of each device: what is known of its file and of sysfs, what was decided, and its
entry; there were 2,860."""
MOST_CALLS = 36
"""Of functions, for each device that an event does not tell of; there were 31."""
NAME = "example.com/serial"
RESOURCES = (resource(NAME, "/dev/ttyUSB*"),)


class Passes:
    """A host with so many devices and what is known of it, as ``Discoverer`` has it."""

    def __init__(self, folder: Path, count: int) -> None:
        self.host = Host(folder)
        for number in range(count):
            self.host.plug(f"ttyUSB{number}")
        self.known = Known(self.host.root)
        self.offers: dict[str, Offer] = {}
        self.listing = NO_LISTING

    def run(self, *stale: str) -> Discovery:
        """One pass after these paths have been told of, and the list that comes of it."""
        self.known.serve(RESOURCES)
        run = Run(Looker(self.host.root), self.known.looks, frozenset(), lambda: 0.0)
        self.known.forget(Stale(paths=set(stale)), run)
        found = discover(
            RESOURCES,
            run.look,
            facts=self.known.facts,
            node_name="n",
            previous=self.offers,
            now=0.0,
            memory=self.known.memory,
        )
        self.offers = dict(found.offers)
        self.listing = listing(self.offers[NAME], self.listing)
        return found


def calls_of(work: Callable[[], object]) -> int:
    """Count the functions that are called, Python's own too."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_ten_thousand_devices_take_a_few_kilobytes_each(tmp_path: Path) -> None:
    """Bites if each decision keeps 500 bytes more."""
    passes = Passes(tmp_path, MANY)
    gc.collect()
    tracemalloc.start()
    try:
        passes.run()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(passes.listing.entries) == MANY
    assert held / MANY <= MOST_BYTES


def test_an_event_of_one_device_asks_little_of_the_others(tmp_path: Path) -> None:
    """Bites if a pass after an event decides about all devices anew."""
    counts = []
    for count in (500, 1500):
        passes = Passes(tmp_path / str(count), count)
        passes.run()
        passes.host.unplug("ttyUSB7")
        counts.append(calls_of(partial(passes.run, "/dev/ttyUSB7")))
        assert passes.offers[NAME].offered["ttyUSB7"].unhealthy
    few, many = counts
    assert (many - few) / 1000 <= MOST_CALLS
