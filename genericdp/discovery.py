"""One pass from the host to the offers: look, then decide."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from genericdp.devices.assembling import Offers, assemble
from genericdp.devices.injecting import draft
from genericdp.devices.inventory import Inventory, Look
from genericdp.devices.matching import match, path_globs, reads_properties
from genericdp.devices.offers import next_to_forget
from genericdp.devices.sysdevice import NOTHING_KNOWN, Facts
from genericdp.host.devicefiles import Looker
from genericdp.host.facts import HostFacts
from genericdp.host.udevrecords import udevd_runs
from genericdp.host.workers import start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from genericdp.devices.offers import Offer
    from genericdp.host.root import Root
    from genericdp.host.uevents import Uevent
    from genericdp.model import Resource

log = logging.getLogger(__name__)

T = TypeVar("T")

RECORD_SECONDS = 2.0
"""How long a new device waits for udev to record its properties."""

LOOK_SECONDS = 5.0
"""How long a look at one glob may take before the others go on without it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovery:
    """What one pass gives."""

    offers: Offers
    folders: frozenset[str] = frozenset()
    """Where a change calls for another pass; paths of the host."""
    due: float | None = None
    """When a vanished device has to leave a list, on the monotonic clock."""
    empty_globs: tuple[tuple[str, str], ...] = ()
    """Resource and glob of each selector that found nothing."""


def discover(
    resources: Sequence[Resource],
    look: Callable[[str], Look | None],
    *,
    facts: Facts = NOTHING_KNOWN,
    node_name: str,
    previous: Mapping[str, Offer],
    now: float,
) -> Discovery:
    """Look at all that the resources name and decide what each offers.

    ``look`` gives None for a glob that hangs.
    """
    inventory = Inventory(look, facts)
    matches = match(resources, inventory, node_name)
    drafts = [
        draft(resource, candidate, inventory, node_name)
        for resource in resources
        for candidate in matches.members[resource.name]
    ]
    offers = assemble(resources, matches, drafts, inventory, previous, now=now)
    due = (next_to_forget(offers[one.name].offered, one.forget_after_seconds) for one in resources)
    return Discovery(
        offers=offers,
        folders=inventory.folders,
        due=min((moment for moment in due if moment is not None), default=None),
        empty_globs=tuple(
            (resource.name, pattern)
            for resource in resources
            for pattern in sorted({*path_globs((*resource.match, *resource.exclude))})
            if not inventory.found(pattern) and pattern not in inventory.hanging
        ),
    )


@dataclass(slots=True)
class _Run:
    """One pass in a thread, and what it is looking at just now."""

    looker: Looker
    hanging: frozenset[str]
    now: Callable[[], float]
    at: tuple[str, float] | None = None
    """The glob or file, and since when it is being looked at."""

    def look(self, pattern: str) -> Look | None:
        """Look at a glob; None if it is known to hang."""
        if pattern in self.hanging:
            return None
        return self._looking(pattern, partial(self.looker.look, pattern))

    def read(self, path: str, read: Callable[[], str]) -> str:
        """Read a file; raises TimeoutError if it is known to hang."""
        if path in self.hanging:
            raise TimeoutError("reading it does not end")
        return self._looking(path, read)

    def _looking(self, what: str, look: Callable[[], T]) -> T:
        # No context manager: that costs three times as much, 20,000 times in a pass.
        outer, self.at = self.at, (what, self.now())
        try:
            return look()
        finally:
            self.at = outer and (outer[0], self.now())

    def stuck(self, seconds: float) -> str:
        """Give what has been looked at for longer than that, if anything."""
        at = self.at  # read once: the thread goes on meanwhile
        return at[0] if at is not None and self.now() - at[1] > seconds else ""


@dataclass(slots=True)
class _Stale:
    """What has to be asked again."""

    syspaths: set[str] = field(default_factory=set)
    records: set[str] = field(default_factory=set)


class Discoverer:
    """Runs passes off the loop; a folder that hangs concerns what lies in it, nothing else."""

    def __init__(
        self,
        root: Root,
        *,
        node_name: str,
        look_again: Callable[[], None],
        look_seconds: float = LOOK_SECONDS,
        now: Callable[[], float] = time.monotonic,
        looker: Callable[[Root], Looker] = Looker,
    ) -> None:
        self._root = root
        self._node_name = node_name
        self._look_again = look_again
        self._look_seconds = look_seconds
        self._now = now
        self._looker = looker
        self._hanging: set[str] = set()
        self._facts = HostFacts(root)
        self._stale = _Stale()
        self._arrived: dict[str, float] = {}

    def tell_of_event(self, event: Uevent | None) -> None:
        """Take note of what the kernel told: only that is read again. None: everything is."""
        if event is None:
            self._facts = HostFacts(self._root)
        else:
            self._stale.syspaths |= {event.syspath, event.former_syspath} - {""}
            if event.action == "add":
                self._arrived[event.syspath] = self._now()
        self._look_again()

    def tell_of_record(self, name: str | None) -> None:
        """Take note of what udev has written."""
        if name is None:
            self._facts = HostFacts(self._root)
        else:
            self._stale.records.add(name)
        self._look_again()

    async def discover(
        self, resources: Sequence[Resource], previous: Mapping[str, Offer], *, full: bool = True
    ) -> Discovery:
        """Run one pass in a daemon thread; a ``full`` one asks the host everything again."""
        if full:
            self._facts = HostFacts(self._root)
        waiting = self._waiting(resources)
        stale, self._stale = self._stale, _Stale()
        while True:
            run = _Run(self._looker(self._root), frozenset(self._hanging), self._now)
            facts = self._facts
            facts.guard, facts.awaiting = run.read, frozenset(waiting)
            work = partial(self._pass, run, facts, stale, resources, previous)
            result = start(work)
            stuck = ""
            while not result.done() and not (stuck := run.stuck(self._look_seconds)):
                await asyncio.wait([result], timeout=self._look_seconds / 4)
            if result.done():
                found = result.result()
                due = [*waiting.values(), *([] if found.due is None else [found.due])]
                return replace(found, due=min(due, default=None))
            # The thread may still write into what it holds.
            self._facts = HostFacts(self._root)
            self._give_up(stuck, result)

    def _pass(
        self,
        run: _Run,
        facts: HostFacts,
        stale: _Stale,
        resources: Sequence[Resource],
        previous: Mapping[str, Offer],
    ) -> Discovery:
        for syspath in stale.syspaths:
            facts.forget(syspath)
        for name in stale.records:
            facts.forget_record(name)
        return discover(
            resources,
            run.look,
            facts=facts,
            node_name=self._node_name,
            previous=previous,
            now=self._now(),
        )

    def _waiting(self, resources: Sequence[Resource]) -> dict[str, float]:
        """Give the devices that have just appeared, and until when udev may take to record them.

        Only where udev runs and somebody asks for what it records.
        """
        now = self._now()
        self._arrived = {
            syspath: since
            for syspath, since in self._arrived.items()
            if now - since < RECORD_SECONDS
        }
        if not self._arrived or not udevd_runs(self._root):
            return {}
        if not any(map(reads_properties, resources)):
            return {}
        return {syspath: since + RECORD_SECONDS for syspath, since in self._arrived.items()}

    def _give_up(self, pattern: str, result: asyncio.Future[Discovery]) -> None:
        """Leave the thread alone until its look ends, if ever; then look again."""
        log.warning("looking at %s does not end: going on without it", pattern)
        self._hanging.add(pattern)

        def ended(result: asyncio.Future[Discovery]) -> None:
            if not result.cancelled():
                result.exception()  # taken note of: what it found is out of date anyway
            log.info("looking at %s has ended", pattern)
            self._hanging.discard(pattern)
            self._facts = HostFacts(self._root)  # these have been told that it hangs
            self._look_again()

        result.add_done_callback(ended)
