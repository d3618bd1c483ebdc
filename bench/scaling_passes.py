"""What the daemon computes, one step after the other in this process: the least CPU time."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.host.root import Root
from genericdp.kubelet.servicer import encode_list, preferred_allocation
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.model import PathSelector, Place, Preference, Resource, Selector
from tests.looking import Discoverer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.scaling_fit import Page
    from genericdp.devices.devicelist import DeviceList
    from genericdp.host.uevents import Uevent

PLACE = Place(file="bench.yaml", line=1, column=1)
TIMES = 3


@dataclass(slots=True)
class Costs:
    """What each step took, by what it is; several samples of each."""

    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By chart and what it is."""

    @contextmanager
    def of(self, what: str, chart: str = "passes") -> Iterator[None]:
        """Take a sample: CPU time of all threads of this process, in milliseconds."""
        gc.collect()
        begun = time.process_time()
        yield
        self.samples.setdefault((chart, what), []).append((time.process_time() - begun) * 1000)

    def note_in(self, page: Page) -> None:
        """Note the least sample of each: what disturbs only adds to it."""
        for (chart, what), some in self.samples.items():
            page.note(chart, what, min(some))


class Passes:
    """Passes over a host, and the lists that come of them."""

    def __init__(self, root: Path, resources: Sequence[Resource]) -> None:
        self._root = Root(root)
        self.resources = tuple(resources)
        self.lists: Mapping[str, DeviceList] = {}
        self._begin()

    def _begin(self) -> None:
        self.discoverer = Discoverer(self._root, look_again=lambda: None)

    async def look(self, *, full: bool) -> None:
        """Run one pass, and serialize what has changed."""
        found = await self.discoverer.discover(self.resources, self.lists, full=full)
        before, self.lists = self.lists, found.lists
        for name, offer in self.lists.items():
            if offer is not before.get(name):
                encode_list(offer)

    async def first(self, costs: Costs, what: str, times: int = TIMES) -> None:
        """Measure passes of a process that knows nothing yet."""
        for _ in range(times):
            self._begin()
            self.lists = {}
            with costs.of(what):
                await self.look(full=True)

    async def full(self, costs: Costs, what: str, times: int = TIMES) -> None:
        """Measure passes that ask the host everything again."""
        for _ in range(times):
            with costs.of(what):
                await self.look(full=True)

    async def events(
        self,
        costs: Costs,
        what: str,
        *changes: tuple[Callable[[], object], str, Uevent | None],
        times: int = TIMES,
    ) -> None:
        """Measure a pass after each change; with it comes what is told of it: a path, an event."""
        for _ in range(times):
            for change, path, event in changes:
                await asyncio.to_thread(change)
                if event is not None:
                    self.discoverer.mark_event(event)
                self.discoverer.mark_file(path)
                with costs.of(what):
                    await self.look(full=False)

    @property
    def listed(self) -> int:
        """How many devices are Healthy."""
        each = (one for offer in self.lists.values() for one in offer.devices.values())
        return sum(not one.unhealthy for one in each)


def paths(name: str, *globs: str) -> Resource:
    """Give a resource that takes what these globs find."""
    match = Selector(candidates=PathSelector(globs=globs))
    return Resource(name=f"bench.example.com/{name}", place=PLACE, match=(match,))


def prefer(costs: Costs, what: str, offer: DeviceList, preference: Preference) -> None:
    """Measure the answer to GetPreferredAllocation with all ids, of which four are wanted."""
    wish = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=list(offer.devices), allocation_size=4
    )
    request = api.PreferredAllocationRequest(container_requests=[wish]).SerializeToString()
    answer = b""
    for _ in range(TIMES):
        with costs.of(what, "answers"):
            answer = preferred_allocation(request, offer, preference, replicas=1)
    (given,) = api.PreferredAllocationResponse.FromString(answer).container_responses
    if len(given.deviceIDs) != 4:
        raise RuntimeError(f"{len(given.deviceIDs)} devices are preferred instead of 4")


def encode(costs: Costs, what: str, work: Callable[[], str | bytes]) -> int:
    """Measure the making of a text or message; give its size."""
    sizes = set()
    for _ in range(TIMES):
        with costs.of(what, "answers"):
            made = work()
        sizes.add(len(made))
    return max(sizes)
