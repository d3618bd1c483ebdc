"""The cost of a reconcile grows as the number of devices: calls are counted, since seconds vary."""

from __future__ import annotations

from cProfile import Profile
from functools import partial
from math import log
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.changes import changes
from genericdp.devices.decide import decide, with_states
from genericdp.host.cache import HostCache, Stale
from genericdp.host.events import Uevent
from genericdp.kubelet.servicer import encode_list, entry_bytes
from genericdp.template import parse

from tests.cases.machine import Machine as Tree
from tests.devices.making import inject, nodes, resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.devices.decide import Decision

pytestmark = pytest.mark.slow

THINGS = resource(
    "things",
    "/dev/thing*",
    exclude=["/dev/thing1?"],
    given=inject(nodes("$(device.path)"), env={"NAME": "$(device.name)"}),
)
GROUPS = resource("groups", "/dev/group*", group_by=parse("$(device.name)"))
OTHER = Uevent(action="change", syspath="/sys/devices/virtual/mem/null", subsystem="mem")
MOST = 1.03
"""The exponent: one call more for each seventh other device is above it."""


def counted(work: Callable[[], object]) -> int:
    """Return how many functions are called."""
    profile = Profile(builtins=True)
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


class Machine:
    """A host of this many devices, all of which are listed."""

    def __init__(self, directory: Path, count: int) -> None:
        self.tree = Tree(directory)
        for number in range(count):
            self.tree.node(f"thing{number}", f"241:{number}")
            self.tree.node(f"group{number}", f"242:{number}")
        self.host = HostCache(self.tree.root)
        self.decision: Decision | None = None
        self.response = b""

    def reconcile(self, stale: Stale) -> None:
        """Decide, and make of the decision what the kubelet and the log get."""
        self.host.forget(stale)
        before = {} if self.decision is None else self.decision.lists
        now = 0.0 if self.decision is None else self.decision.now + 1.0
        found = decide(
            [THINGS, GROUPS],
            self.host,
            node_name="n",
            previous=before,
            now=now,
            entry_bytes=entry_bytes,
        )
        self.decision = with_states(found, before, {}, {})
        self.response = encode_list(self.decision.lists[THINGS.name])
        assert any(changes(before, self.decision))


def test_calls_grow_as_the_number_of_devices_does(tmp_path: Path) -> None:
    found: dict[str, dict[int, int]] = {"start": {}, "change": {}, "other": {}}
    for count in (100, 400):
        machine = Machine(tmp_path / str(count), count)
        found["start"][count] = counted(partial(machine.reconcile, Stale()))
        before = machine.response
        machine.tree.remove(f"dev/thing{count - 1}")
        gone = Stale(paths={f"/dev/thing{count - 1}"})
        found["change"][count] = counted(partial(machine.reconcile, gone))
        assert machine.response != before
        found["other"][count] = counted(partial(machine.host.concerns, OTHER))
        assert not machine.host.concerns(OTHER)
    assert len(set(found.pop("other").values())) == 1
    for what, calls in found.items():
        exponent = log(calls[400] / calls[100]) / log(4)
        assert exponent <= MOST, f"{what}: {calls}"
