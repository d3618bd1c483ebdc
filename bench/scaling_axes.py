"""What one step costs where there is 1, 10, 100 times as much: resources, devices, sysfs."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bench import trees
from bench.nodes import FOLDER, nodes
from bench.scaling_passes import PLACE, TIMES, Costs, Passes, encode, paths, prefer
from bench.sides import config_text, things
from genericdp.config.load import read_all
from genericdp.config.loaded import ConfigState
from genericdp.host.uevents import Uevent
from genericdp.kubelet.servicer import encode_list
from genericdp.model import (
    Hardware,
    Preference,
    Resource,
    Selector,
    UdevSelector,
    UsbSelector,
    ValueKind,
    ValueSource,
)
from genericdp.status.state import ResourceState, State, as_json
from genericdp.template import parse

if TYPE_CHECKING:
    from pathlib import Path

    from bench.nodes import Nodes
    from bench.scaling_fit import Page
    from bench.sides import Bench
    from genericdp.devices.devicelist import DeviceList

RESOURCES = (5, 50, 500)
DEVICES = (100, 1_000, 10_000)
SYSFS = (200, 2_000, 20_000)
_ALL = f"/dev/{FOLDER}/thing-*"
_EACH = 10
"""So many devices a resource has where its glob finds them among those of all others."""
_TTYS = 200
"""Of the machine on which each of the resources selects one by what sysfs says."""
_TENS = ValueSource(kind=ValueKind.TEXT, source=parse("$(device.name)"), regex="^(.*).$")


def _kinds() -> dict[str, Resource]:
    """Give resources that take the same devices in other ways."""
    things = paths("thing", _ALL)
    return {
        "": things,
        ", groups of ten": replace(things, values={"tens": _TENS}, group_by=parse("$(value.tens)")),
        ", 4 replicas": replace(things, replicas=4),
        ", a tenth excluded": replace(things, exclude=paths("x", f"/dev/{FOLDER}/*3").match),
    }


async def devices(bench: Bench, count: int, notes: Page) -> None:
    """Measure one resource with so many devices."""
    costs = Costs()
    with nodes(count, bench.scratch) as host:
        for kind, resource in _kinds().items():
            passes = Passes(host.root, (resource,))
            times = 1 if kind and count == max(DEVICES) else TIMES
            await passes.first(costs, f"first pass{kind}", times)
            if not kind:
                await passes.full(costs, "full look again")
                (offer,) = passes.lists.values()
                _made(costs, offer, notes)
                for preference in (Preference.CLOSEST, Preference.SPREAD):
                    what = f"GetPreferredAllocation, {preference}"
                    prefer(costs, what, offer, preference)
            await _one_event(costs, f"pass after one event{kind}", passes, host)
            if not kind:
                await _all_events(costs, passes, host, count)
    costs.note_in(notes)


async def _one_event(costs: Costs, what: str, passes: Passes, host: Nodes) -> None:
    path = f"/dev/{FOLDER}/thing-12"
    gone, back = partial(host.remove, 12), partial(host.make, 12)
    await passes.events(costs, what, (gone, path, None), (back, path, None))


async def _all_events(costs: Costs, passes: Passes, host: Nodes, count: int) -> None:
    """Let all devices vanish at once, then return."""
    for what, change, wanted in (
        ("pass after all have vanished", host.remove, 0),
        ("pass after all have come", host.make, count),
    ):
        for number in range(count):
            await asyncio.to_thread(change, number)
            passes.discoverer.mark_file(f"/dev/{FOLDER}/thing-{number}")
        with costs.of(what):
            await passes.look(full=False)
        if passes.listed != wanted:
            raise RuntimeError(f"{passes.listed} devices are listed instead of {wanted}")


def _made(costs: Costs, offer: DeviceList, notes: Page) -> None:
    state = _state(offer)
    for what, work in (
        ("one list", lambda: encode_list(offer)),
        ("/status", lambda: json.dumps(as_json(state)).encode()),
    ):
        notes.note("bytes", what, encode(costs, what, work))


def _state(offer: DeviceList) -> State:
    thing = ResourceState(resource=paths("thing", _ALL), registered=True, devices=offer)
    return State(
        node="bench",
        time=0.0,
        started=0.0,
        kubelet_folder="/",
        kubelet_present=True,
        kubelet_reason="",
        config=ConfigState(),
        descriptors=None,
        resources=(thing,),
    )


async def resources(bench: Bench, count: int, notes: Page) -> None:
    """Measure so many resources, of one device each, of ten, and of one chosen in sysfs."""
    costs = Costs()
    with nodes((max(RESOURCES) + 1) * _EACH, bench.scratch) as host:
        for kind, pattern in (("", "thing-{}"), (", globs over one folder", "thing-{}[0-9]")):
            passes = Passes(
                host.root,
                [
                    paths(f"thing-{i}", f"/dev/{FOLDER}/{pattern.format(i)}")
                    for i in range(1, count + 1)
                ],
            )
            await passes.first(costs, f"first pass{kind}")
            await passes.full(costs, f"full look again{kind}")
            path = f"/dev/{FOLDER}/thing-{12 if kind else 1}"
            number = int(path.rpartition("-")[2])
            gone, back = partial(host.remove, number), partial(host.make, number)
            what = f"pass after one event{kind}"
            await passes.events(costs, what, (gone, path, None), (back, path, None))
    file = bench.scratch / f"resources-{count}.yaml"
    file.write_text(config_text(things(count)), encoding="utf-8")
    for _ in range(TIMES):
        with costs.of("config read and checked", "answers"):
            read_all([file])
    await _chosen_in_sysfs(bench, costs, count)
    costs.note_in(notes)


async def _chosen_in_sysfs(bench: Bench, costs: Costs, count: int) -> None:
    folder = bench.scratch / "ttys"
    folder.mkdir()
    try:
        await asyncio.to_thread(trees.make, folder, _TTYS)
        what = f"first pass, udev selectors over {_TTYS} ttys"
        passes = Passes(folder, [_ttys(f"tty-{i}", f"ttyUSB{i}") for i in range(count)])
        await passes.first(costs, what)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


def _ttys(name: str, *wanted: str, hardware: Hardware | None = None) -> Resource:
    candidates = UdevSelector(subsystem=("tty",), name=wanted)
    match = Selector(candidates=candidates, hardware=hardware or Hardware())
    return Resource(name=f"bench.example.com/{name}", place=PLACE, match=(match,))


async def sysfs(folder: Path, count: int, notes: Page) -> None:
    """Measure ten matched ttys on a machine with so many devices of sysfs."""
    costs = Costs()
    ten = Hardware(usb=UsbSelector(serial=("A000001?",)))
    passes = Passes(folder, [replace(_ttys("tty", hardware=ten), id=parse("$(usb.serial)"))])
    await passes.first(costs, "first pass")
    if passes.listed != _EACH:
        raise RuntimeError(f"{passes.listed} devices of {count} are listed instead of {_EACH}")
    await passes.full(costs, "full look again")
    for whose, number in (("one of the ten", 12), ("another device", 30)):
        remove, add = partial(trees.remove, folder, number), partial(trees.add, folder, number)
        path, syspath = f"/dev/ttyUSB{number}", trees.syspath(number)
        changes = (
            (remove, path, Uevent(action="remove", syspath=syspath)),
            (add, path, Uevent(action="add", syspath=syspath)),
        )
        await passes.events(costs, f"pass after an event of {whose}", *changes)
    costs.note_in(notes)
