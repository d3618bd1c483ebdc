"""What is remembered of the host from one pass to the next, and a pass that adds to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, TypeVar

from genericdp.devices.amending import Concerned
from genericdp.devices.indexing import Standing
from genericdp.devices.remembering import Memory
from genericdp.host.facts import HostFacts
from genericdp.host.looks import Looks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from genericdp.devices.assembling import Offers
    from genericdp.devices.holders import Holders
    from genericdp.devices.inventory import Look
    from genericdp.devices.offers import Offer
    from genericdp.host.devicefiles import Looker
    from genericdp.host.root import Root
    from genericdp.model import Resource

T = TypeVar("T")

CHANGED_FILES = "changed device files"
"""What is said to hang when a look at one of them does."""


@dataclass(slots=True)
class Run:
    """One pass in a thread, and what it is looking at just now."""

    looker: Looker
    looks: Looks
    hanging: frozenset[str]
    now: Callable[[], float]
    at: tuple[str, float] | None = None
    """The glob or file, and since when it is being looked at."""
    unreadable: set[str] = field(default_factory=set)
    """What could not be read, and why: what was known of it stays."""

    def look(self, pattern: str) -> Look | None:
        """Look at a glob, unless what it finds is known; None if it is known to hang."""
        if pattern in self.hanging:
            return None
        look = self.looks.get(pattern)
        if look is None:
            look = self._looking(pattern, partial(self.looker.look, pattern))
            if look.trouble:
                look = self._as_before(pattern, look)
            self.looks.keep(pattern, look)
        return look

    def _as_before(self, pattern: str, look: Look) -> Look:
        """Give what a glob has found before where it cannot be read now: no error is an absence."""
        self.unreadable.add(look.trouble)
        last = self.looks.last(pattern)
        if last is None:
            return look
        return replace(last, folders=last.folders | look.folders, trouble=look.trouble)

    def renew(self, paths: Collection[str]) -> set[str]:
        """Look again at entries that may have changed; give the globs that find something else."""
        return self._looking(CHANGED_FILES, lambda: self.looks.renew(paths, self.looker))

    def syspaths_of(self, paths: Collection[str]) -> set[str]:
        """Give the devices whose files lie at these paths."""

        def look() -> set[str]:
            found = (self.looker.examine(path) for path in paths)
            return {one.identity.syspath for one in found if one and one.identity.syspath}

        return self._looking(CHANGED_FILES, look)

    def read(self, path: str, read: Callable[[], str]) -> str:
        """Read a file; raises TimeoutError if it is known to hang."""
        if path in self.hanging:
            raise TimeoutError("reading it does not end")
        return self._looking(path, read)

    def _looking(self, what: str, look: Callable[[], T]) -> T:
        """Tell what is being looked at meanwhile."""
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
class Stale:
    """What has to be asked again."""

    syspaths: set[str] = field(default_factory=set)
    records: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    all_files: bool = False


class Known:
    """What is remembered of the host from one pass to the next."""

    def __init__(self, root: Root, before: Known | None = None) -> None:
        self.facts = HostFacts(root)
        self.looks: Looks = Looks(None if before is None else before.looks)
        self.memory = Memory()
        self.resources: tuple[Resource, ...] = ()
        """Those that the memory is about."""
        self.standing: Standing | None = None
        """What the last pass has decided; None: everything has to be decided about."""

    def forget(self, stale: Stale, run: Run) -> Concerned:
        """Forget what is stale, and all that was decided by it; gives what that concerns."""
        if stale.all_files:
            self.looks, self.memory = Looks(self.looks), Memory()
            self.standing = None
            run.looks = self.looks
        told = set(stale.syspaths)
        for name in stale.records:
            told.update(self.facts.syspaths_of_record(name))
        paths = set(stale.paths)
        for syspath in told:
            paths |= self._paths_of(syspath)
        # Files first, then devices: what has a file then is in sysfs too. It may have been told of
        # by its file alone so far.
        told |= run.syspaths_of(stale.paths)
        told |= {one for one in run.syspaths_of(paths) if self.facts.device(one) is None}
        concerned: set[str] = set()
        for syspath in told:
            concerned.update(self.facts.forget(syspath))
            paths |= self._paths_of(syspath)
        globs = run.renew(paths)
        if any(self.looks.get(glob) is None for glob in globs):
            self.standing = None  # they have to be looked at anew, and may find anything
        return Concerned(
            paths=frozenset(paths),
            syspaths=frozenset(concerned),
            globs=frozenset(globs),
            decisions=self.memory.forget(concerned, globs, self.facts),
        )

    def stand(
        self,
        offers: Offers,
        due: float | None,
        holders: Holders | None,
        previous: Mapping[str, Offer],
        before: Standing | None,
    ) -> None:
        """Take note of what a pass has decided; ``before`` is what stood until then."""
        if self.facts.awaiting:
            return  # a device has been left out, and nothing will tell of it
        indexes = {} if before is None else before.indexes
        self.standing = Standing(offers, due, holders, indexes)
        if all(offer is previous.get(name) for name, offer in offers.items()):
            self.standing.bring_up_to_date()  # while nobody waits for it

    def _paths_of(self, syspath: str) -> set[str]:
        """Give the paths that an event of a device is about."""
        device = self.facts.device(syspath)
        paths = {syspath, *self.looks.paths_of(syspath, "" if device is None else device.key)}
        if device is not None and device.device_file:
            paths.add(device.device_file)
        return paths

    def serve(self, resources: Sequence[Resource]) -> None:
        """Forget what was decided about other resources."""
        if len(resources) != len(self.resources) or any(map(is_not, resources, self.resources)):
            self.memory, self.standing = Memory(), None
            self.resources = tuple(resources)
