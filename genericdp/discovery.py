"""One pass from the host to the offers: look, then decide."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.amending import amend
from genericdp.devices.assembling import Offers, offers_of
from genericdp.devices.inventory import Inventory, Look
from genericdp.devices.matching import path_globs, reads_properties
from genericdp.devices.offers import next_change
from genericdp.devices.sysdevice import NOTHING_KNOWN, Facts
from genericdp.host.devicefiles import Looker
from genericdp.host.root import BlindError
from genericdp.host.udevdb import udevd_runs
from genericdp.host.workers import start
from genericdp.known import CHANGED_FILES, Known, Run, Stale
from genericdp.unreadable import AGAIN_SECONDS, Undecided, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from genericdp.devices.holders import Holders
    from genericdp.devices.offers import Offer
    from genericdp.devices.remembering import Memory
    from genericdp.host.root import Root
    from genericdp.host.uevents import Uevent
    from genericdp.model import Resource

log = logging.getLogger(__name__)

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
    """Resource and glob of each selector that found nothing, of a pass over all."""
    changed: Mapping[str, frozenset[str]] | None = None
    """By resource, the ids of all that is not as in the last pass; None: anything may differ."""
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """By resource, why it could not be decided: it keeps what it had."""


def discover(
    resources: Sequence[Resource],
    look: Callable[[str], Look | None],
    *,
    facts: Facts = NOTHING_KNOWN,
    node_name: str,
    previous: Mapping[str, Offer],
    now: float,
    memory: Memory | None = None,
    holders: Holders | None = None,
) -> Discovery:
    """Look at all that the resources name and decide what each offers.

    ``look`` gives None for a glob that hangs. ``memory`` is of the same resources. ``holders``
    says what pods hold; None: nobody asks.
    """
    inventory = Inventory(look, facts, memory)
    offers = offers_of(resources, inventory, node_name, previous, now=now, holders=holders)
    decided = [one for one in resources if one.name not in inventory.failures]
    due = (next_change(offers[one.name], one.forget_after_seconds, now=now) for one in decided)
    return Discovery(
        offers=offers,
        folders=inventory.folders,
        due=min((moment for moment in due if moment is not None), default=None),
        empty_globs=tuple(
            (resource.name, pattern)
            for resource in decided
            for pattern in sorted({*path_globs((*resource.match, *resource.exclude))})
            if not inventory.found(pattern) and pattern not in inventory.hanging
        ),
        failures=inventory.failures,
    )


def discover_again(
    known: Known,
    run: Run,
    stale: Stale,
    resources: Sequence[Resource],
    *,
    node_name: str,
    previous: Mapping[str, Offer],
    now: float,
    holders: Holders | None = None,
) -> Discovery:
    """As ``discover``, where what is ``known`` has not changed but for what is ``stale``."""
    concerned = known.forget(stale, run)
    standing, known.standing = known.standing, None
    amended = None
    if standing is not None and standing.offers is previous and not run.hanging:
        inventory = Inventory(run.look, known.facts, known.memory)
        given = (standing, concerned, resources, inventory, node_name)
        amended = amend(*given, now=now, holders=holders)
        amended = None if inventory.failures else amended
    if amended is not None:
        found = Discovery(offers=amended.offers, due=amended.due, changed=amended.changed)
    else:
        found = discover(
            resources,
            run.look,
            facts=known.facts,
            node_name=node_name,
            previous=previous,
            now=now,
            memory=known.memory,
            holders=holders,
        )
    if not found.failures:
        known.stand(found.offers, found.due, holders, previous, standing)
    return found


class Discoverer:
    """Runs passes off the loop; a folder that hangs concerns what lies in it, nothing else.

    A pass that is not ``full`` asks the host only about what it has been told of.
    """

    def __init__(
        self,
        root: Root,
        *,
        node_name: str,
        look_again: Callable[[], None],
        look_seconds: float = LOOK_SECONDS,
        now: Callable[[], float] = time.monotonic,
        looker: Callable[[Root], Looker] = Looker,
        holders: Callable[[], Holders | None] = lambda: None,
    ) -> None:
        self._root = root.wary()
        self._node_name = node_name
        self._look_again = look_again
        self._look_seconds = look_seconds
        self._now = now
        self._looker = looker
        self._holders = holders
        self._hanging: set[str] = set()
        self._known = Known(self._root)
        self._stale = Stale()
        self._unreadable = Unreadable()
        self._undecided = Undecided()
        self._arrived: dict[str, float] = {}

    def tell_of_event(self, event: Uevent | None) -> None:
        """Take note of what the kernel told: only that is read again. None: everything is."""
        if event is None:
            self._known = Known(self._root, self._known)
        else:
            self._stale.syspaths |= {event.syspath, event.former_syspath} - {""}
            if event.action == "add":
                self._arrived[event.syspath] = self._now()
        self._look_again()

    def tell_of_record(self, name: str | None) -> None:
        """Take note of what udev has written."""
        if name is None:
            self._known = Known(self._root, self._known)
        else:
            self._stale.records.add(name)
        self._look_again()

    def tell_of_file(self, path: str | None) -> None:
        """Take note that a path of the host may lead to something else. None: any of them.

        Who tells asks for the pass.
        """
        if path is None:
            self._stale.all_files = True
        else:
            self._stale.paths.add(path)

    async def discover(
        self, resources: Sequence[Resource], previous: Mapping[str, Offer], *, full: bool = True
    ) -> Discovery:
        """Run one pass in a daemon thread; a ``full`` one asks the host everything again."""
        stale, self._stale = self._stale, Stale()
        if full or CHANGED_FILES in self._hanging:
            self._known, stale = Known(self._root, self._known), Stale()
        waiting = self._waiting(resources, stale)
        while True:
            known = self._known
            known.serve(resources)
            run = Run(self._looker(self._root), known.looks, frozenset(self._hanging), self._now)
            known.facts.guard, known.facts.awaiting = run.read, frozenset(waiting)
            work = partial(self._pass, run, known, stale, resources, previous)
            result = start(work)
            stuck = ""
            while not result.done() and not (stuck := run.stuck(self._look_seconds)):
                await asyncio.wait([result], timeout=self._look_seconds / 4)
            if result.done() and (blind := result.exception()) is not None:
                self._known, stale = Known(self._root, self._known), Stale()
                await self._wait_blind(blind)
                continue
            if result.done():
                found = result.result()
                known.looks.settle()
                again = self._unreadable.tell(run.unreadable, now=self._now())
                self._undecided.tell(found.offers, found.failures)
                due = (found.due, again, *waiting.values())
                return replace(
                    found, due=min((one for one in due if one is not None), default=None)
                )
            # The thread may still write into what it holds.
            self._known, stale = Known(self._root, self._known), Stale()
            self._give_up(stuck, result)

    def _pass(
        self,
        run: Run,
        known: Known,
        stale: Stale,
        resources: Sequence[Resource],
        previous: Mapping[str, Offer],
    ) -> Discovery:
        found = discover_again(
            known,
            run,
            stale,
            resources,
            node_name=self._node_name,
            previous=previous,
            now=self._now(),
            holders=self._holders(),
        )
        return replace(found, folders=frozenset(known.looks.folders))

    def _waiting(self, resources: Sequence[Resource], stale: Stale) -> dict[str, float]:
        """Give the devices that have just appeared, and until when udev may take to record them.

        Only where udev runs and somebody asks for what it records. Once that time is over, a device
        is ``stale``: what is known of it is what was read before udev had its chance.
        """
        now = self._now()
        late = {one for one, since in self._arrived.items() if now - since >= RECORD_SECONDS}
        stale.syspaths |= late
        for syspath in late:
            del self._arrived[syspath]
        if not self._arrived or not udevd_runs(self._root):
            return {}
        if not any(map(reads_properties, resources)):
            return {}
        return {syspath: since + RECORD_SECONDS for syspath, since in self._arrived.items()}

    async def _wait_blind(self, error: BaseException) -> None:
        """Wait a moment where nothing can be concluded; raises any other error."""
        if not isinstance(error, BlindError):
            raise error
        self._unreadable.tell_blind(error)
        await asyncio.sleep(AGAIN_SECONDS)

    def _give_up(self, pattern: str, result: asyncio.Future[Discovery]) -> None:
        """Leave the thread alone until its look ends, if ever; then look again."""
        log.warning("looking at %s does not end: going on without it", pattern)
        self._hanging.add(pattern)

        def ended(result: asyncio.Future[Discovery]) -> None:
            if not result.cancelled():
                result.exception()  # taken note of: what it found is out of date anyway
            log.info("looking at %s has ended", pattern)
            self._hanging.discard(pattern)
            self._known = Known(self._root, self._known)  # this has been told that it hangs
            self._look_again()

        result.add_done_callback(ended)
