"""One pass from the host to the offers: look, then decide."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.assembling import Offers, assemble
from genericdp.devices.injecting import draft
from genericdp.devices.inventory import Inventory, Look
from genericdp.devices.matching import match, path_globs
from genericdp.devices.offers import next_to_forget
from genericdp.devices.sysdevice import NOTHING_KNOWN, Facts
from genericdp.host.devicefiles import Looker
from genericdp.host.threads import start_daemon_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from genericdp.devices.offers import Offer
    from genericdp.host.root import Root
    from genericdp.model import Resource

log = logging.getLogger(__name__)

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
    """The glob, and since when it is being looked at."""

    def look(self, pattern: str) -> Look | None:
        if pattern in self.hanging:
            return None
        self.at = (pattern, self.now())
        try:
            return self.looker.look(pattern)
        finally:
            self.at = None

    def stuck(self, seconds: float) -> str:
        """Give the glob whose look has lasted longer than that, if any."""
        at = self.at  # read once: the thread goes on meanwhile
        return at[0] if at is not None and self.now() - at[1] > seconds else ""


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

    async def discover(
        self, resources: Sequence[Resource], previous: Mapping[str, Offer]
    ) -> Discovery:
        """Run one pass in a daemon thread."""
        while True:
            run = _Run(self._looker(self._root), frozenset(self._hanging), self._now)

            def work(run: _Run = run) -> Discovery:
                return discover(
                    resources,
                    run.look,
                    node_name=self._node_name,
                    previous=previous,
                    now=self._now(),
                )

            result = start_daemon_thread(work, name="discovery")
            stuck = ""
            while not result.done() and not (stuck := run.stuck(self._look_seconds)):
                await asyncio.wait([result], timeout=self._look_seconds / 4)
            if result.done():
                return result.result()
            self._give_up(stuck, result)

    def _give_up(self, pattern: str, result: asyncio.Future[Discovery]) -> None:
        """Leave the thread alone until its look ends, if ever; then look again."""
        log.warning("looking at %s does not end: going on without it", pattern)
        self._hanging.add(pattern)

        def ended(result: asyncio.Future[Discovery]) -> None:
            if not result.cancelled():
                result.exception()  # taken note of: what it found is out of date anyway
            log.info("looking at %s has ended", pattern)
            self._hanging.discard(pattern)
            self._look_again()

        result.add_done_callback(ended)
