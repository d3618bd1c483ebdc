"""Work grows no faster than what there is: counted in instructions of bytecode.

That sees the loops within a function, too, which a count of calls does not, and is the same on any
machine. What C code does by itself (a slice, ``in`` of a list) it does not see: for that there is
``make bench-growth``.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from functools import partial
from math import log
from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import read_all
from genericdp.discovery import Discoverer
from genericdp.host.uevents import Uevent
from genericdp.kubelet.company import Company, Later
from genericdp.kubelet.peers import Peer
from genericdp.model import Selector, UdevSelector, ValueKind, ValueSource
from genericdp.observed import Observed
from genericdp.status import codec
from genericdp.template import parse
from tests.status.samples import many
from tests.world import Host, resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType
    from typing import Any

    from genericdp.devices.offers import Offer
    from genericdp.discovery import Discovery

FEW, MANY = 200, 2_000
MOST = 1.1
"""The exponent of the worst growth; a walk through all others for each gives 1.2 to 2 here."""
_TENS = ValueSource(kind=ValueKind.TEXT, source=parse("$(device.minor)"), regex="^(.*).$")
RESOURCES = (
    replace(
        resource("example.com/tens", "/dev/ttyUSB*[0-4]"),
        values={"tens": _TENS},
        group_by=parse("$(value.tens)"),
        exclude=resource("x", "/dev/ttyUSB*4").match,
    ),
    resource("example.com/shared", "/dev/ttyUSB*[5-7]", replicas=3),
    replace(
        resource("example.com/rest"),
        match=(Selector(candidates=UdevSelector(subsystem=("tty",))),),
    ),
)
"""Each takes some of the same devices."""


def instructions_of(work: Callable[[], object]) -> int:
    """Count the instructions of bytecode that this thread executes meanwhile."""
    count = 0

    def each(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "opcode"
        return each

    def enter(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return each

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def exponent(few: int, many_: int) -> float:
    """Give how work grows from ``FEW`` things to ``MANY``: 1 if it does as they do."""
    return log(many_ / few) / log(MANY / FEW)


class Counted(Discoverer):
    """Counts the instructions of its passes; they run in a thread."""

    instructions = 0

    def _pass(self, *given: Any) -> Discovery:
        found: list[Discovery] = []
        work = super()._pass
        self.instructions = instructions_of(lambda: found.append(work(*given)))
        return found[0]


class Machine:
    """A host with ttys that come and go, and passes over it."""

    def __init__(self, folder: Path) -> None:
        self.host = Host(folder)
        self._members = folder / "sys" / "class" / "tty"
        self._members.mkdir(parents=True)
        self._discoverer = Counted(self.host.root, node_name="n", look_again=lambda: None)
        self._offers: dict[str, Offer] = {}

    def plug(self, number: int) -> None:
        name = f"ttyUSB{number}"
        self.host.plug(name)
        folder = self.host.folder / "sys" / "devices" / "virtual" / "tty" / name
        if not (folder / "subsystem").is_symlink():
            (folder / "subsystem").symlink_to("../../../../class/tty")
        (self._members / name).symlink_to(f"../../devices/virtual/tty/{name}")
        self._tell("add", name)

    def unplug(self, number: int) -> None:
        name = f"ttyUSB{number}"
        self.host.unplug(name)
        (self._members / name).unlink()
        (self.host.folder / "sys" / "devices" / "virtual" / "tty" / name / "uevent").unlink()
        self._tell("remove", name)

    def _tell(self, action: str, name: str) -> None:
        syspath = f"/sys/devices/virtual/tty/{name}"
        self._discoverer.tell_of_event(Uevent(action=action, syspath=syspath))
        self._discoverer.tell_of_file(f"/dev/{name}")

    async def look(self, *, full: bool = False) -> int:
        """Run one pass; give how many instructions it takes."""
        found = await self._discoverer.discover(RESOURCES, self._offers, full=full)
        self._offers = found.offers
        return self._discoverer.instructions

    def listed(self) -> int:
        return sum(
            not one.unhealthy for offer in self._offers.values() for one in offer.offered.values()
        )


async def passes_over(folder: Path, count: int) -> dict[str, int]:
    """Give the instructions of passes after all that can happen to so many devices."""
    machine, found = Machine(folder), {}
    await machine.look(full=True)
    for number in range(count):
        machine.plug(number)
    found["all come"] = await machine.look()
    found["all are looked at"] = await machine.look(full=True)
    found["all are looked at again"] = await machine.look(full=True)
    # Groups, then what is left for each share of the others.
    assert machine.listed() >= count * 6 // 10
    machine.unplug(7)
    found["one goes"] = await machine.look()
    machine.plug(7)
    found["one comes"] = await machine.look()
    for number in range(count):
        machine.unplug(number)
    found["all go"] = await machine.look()
    assert not machine.listed()
    return found


@pytest.fixture(scope="module")
def growth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The exponent of each pass."""
    few, many_ = (
        asyncio.run(passes_over(tmp_path_factory.mktemp(str(count)), count))
        for count in (FEW, MANY)
    )
    return {what: exponent(few[what], many_[what]) for what in few}


@pytest.mark.parametrize(
    "what",
    [
        "all come",
        "all are looked at",
        "all are looked at again",
        "one goes",
        "one comes",
        "all go",
    ],
)
def test_a_pass_grows_as_the_devices_do(what: str, growth: dict[str, float]) -> None:
    """Bites if a device that leaves its subsystem is looked for among all of them, and if
    ``Inventory.hanging`` is worked out from all looks whenever it is asked for.
    """
    assert growth[what] <= MOST


def read_config(folder: Path, resources: int) -> Callable[[], object]:
    """Give the reading and checking of a config with so many resources."""
    head = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
    entries = (
        f"  - name: example.com/thing-{i}\n    match: [{{path: /dev/thing-{i}}}]\n"
        f"    inject: {{env: {{NUMBER: '{i}'}}}}\n"
        for i in range(resources)
    )
    file = folder / f"{resources}.yaml"
    file.write_text(head + "".join(entries))
    return partial(read_all, [file])


def meet_peers(_folder: Path, resources: int) -> Callable[[], object]:
    """Give what all plugins do when another instance with the same resources comes."""
    peers: Observed[frozenset[Peer]] = Observed(frozenset())
    digests = [f"{i:012x}" for i in range(resources)]
    company = [Company(peers, digest=one, now=lambda: 0.0) for one in digests]
    later = [Later(one, bound_ns=0) for one in company]

    def meet() -> None:
        peers.value = frozenset(
            Peer(name=one, digest=one, instance="other", bound_ns=1) for one in digests
        )
        for its, after in zip(company, later, strict=True):
            its.look()
            after.has_left()

    return meet


def show_status(_folder: Path, devices: int) -> Callable[[], object]:
    """Give the encoding of the state of so many devices."""
    return partial(codec.encode, many(1, devices))


@pytest.mark.parametrize("work_of", [read_config, meet_peers, show_status])
def test_other_work_grows_as_what_it_is_about(
    work_of: Callable[[Path, int], Callable[[], object]], tmp_path: Path
) -> None:
    """Bites if each plugin walks through the peers of all the others."""
    few, many_ = (instructions_of(work_of(tmp_path, count)) for count in (FEW, MANY))
    assert exponent(few, many_) <= MOST
