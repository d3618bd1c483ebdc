"""The soak's own record of what it plugged and configured, and what a list may say then; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tests.soak.config import (
    SOURCES,
    Difference,
    Places,
    Spec,
    difference,
    first_specs,
    kind_of,
    nodes_of,
)

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
ABSENT = ""
"""What stands for the state of a device that is not listed."""
MAX_REPLICAS = 3

States = frozenset[str]
_GONE: States = frozenset({UNHEALTHY})
_MAYBE: States = frozenset({UNHEALTHY, ABSENT})


@dataclass(slots=True)
class Gone:
    """A device that was on offer and no longer can be."""

    at: float
    seen: bool
    """Whether it was listed for sure before: else the daemon may never have known it."""
    reported_at: float = inf
    """By when the list was true again: until then the daemon may have known it as here."""


class Record:
    """Times are of the monotonic clock, in seconds, and come from the caller."""

    def __init__(self, places: Places, kinds: Sequence[str]) -> None:
        self.places = places
        self.kinds = tuple(kinds)
        self.plugged: set[str] = set()
        self.sick: set[str] = set()
        self.on_disk: dict[str, tuple[Spec, ...]] = first_specs(kinds)
        """The latest good config of each source, by the source."""
        self.broken: dict[str, str] = {}
        """What is wrong with a source now, by the source."""
        self.in_force: dict[str, Spec] = {}
        self.unsettled: frozenset[str] = frozenset()
        """Types that the step under way touches: their truth is not owed yet."""
        self.broken_streams: set[str] = set()
        """Types whose stream was broken since kubelet and daemon began: the next time the daemon
        waits longer, as it must where something else throws it out."""
        self.epochs: Counter[str] = Counter()
        """How often a type was touched, and how often a node was plugged or unplugged."""
        self._gone: dict[str, dict[str, Gone]] = {kind: {} for kind in kinds}
        self._seen: dict[str, set[str]] = {kind: set() for kind in kinds}
        self._take(0.0)

    def offered(self, kind: str) -> set[str]:
        spec = self.in_force.get(kind)
        return {node for node in self.plugged if spec is not None and spec.takes(node)}

    def plug(self, node: str, now: float) -> None:
        self.plugged.add(node)
        self._moved(node, now)

    def unplug(self, node: str, now: float) -> None:
        self.plugged.discard(node)
        self._moved(node, now)

    def blink(self, node: str, now: float) -> None:
        """Note that a node was there for too short a time to be listed for sure."""
        self.plug(node, now)
        self.unplug(node, now)

    def set_health(self, node: str, *, well: bool) -> None:
        (self.sick.discard if well else self.sick.add)(node)

    def write(self, source: str, specs: tuple[Spec, ...], now: float) -> Difference:
        """Note that a good config was written; it is active if all others are good too."""
        self.on_disk[source] = specs
        self.broken.pop(source, None)
        return self._take(now)

    def breaks(self, source: str, how: str) -> None:
        """Note that a bad config was written: what is active stays."""
        self.broken[source] = how

    def would_change(self, source: str, specs: tuple[Spec, ...]) -> Difference:
        return difference(self.in_force, self._wanted({**self.on_disk, source: specs}, source))

    def begin_again(self) -> None:
        """Note that another daemon runs: it knows nothing of what was there before."""
        self.broken_streams.clear()
        for kind in self.kinds:
            self._gone[kind].clear()
            self._seen[kind].clear()

    def touch(self, kinds: Iterable[str]) -> None:
        """Note that a step begins that may change the lists of these types."""
        self.unsettled = frozenset(kinds)
        self.epochs.update(self.unsettled)

    def settle(self, now: float) -> None:
        """Note that the kubelet's lists were found true."""
        self.unsettled = frozenset()
        for kind in self.kinds:
            self._seen[kind] = self.offered(kind)
            for gone in self._gone[kind].values():
                gone.reported_at = min(gone.reported_at, now)

    def allowed(self, kind: str, now: float, *, patience: float = 0.0) -> dict[str, States]:
        """Give what a list may say of each id of a resource; of any other id: nothing.

        ``patience``: for this long after its time a disappeared device may still be listed.
        """
        allowed: dict[str, States] = {}
        spec = self.in_force.get(kind)
        if spec is None:
            return allowed
        for node in self.offered(kind):
            state = frozenset({UNHEALTHY if node in self.sick else HEALTHY})
            allowed |= dict.fromkeys(self.shares(node, spec.replicas), state)
        for node, gone in self._gone[kind].items():
            first, *others = self.shares(node, MAX_REPLICAS)
            forget = spec.kind.forget
            if now > gone.reported_at + forget + patience or not forget:
                continue
            kept = gone.seen and now <= gone.at + forget
            allowed[first] = _GONE if kept else _MAYBE
            # How many shares it had then does not matter to anyone.
            allowed |= dict.fromkeys(others, _MAYBE)
        return allowed

    def may_forget(self, kind: str, since: float, now: float, *, patience: float) -> bool:
        """Say whether a disappeared device may have left a list meanwhile, by itself."""
        spec = self.in_force.get(kind)
        if spec is None or not spec.kind.forget:
            return False  # it does so at once
        return any(
            gone.at + spec.kind.forget - patience <= now
            and since <= gone.reported_at + spec.kind.forget + patience
            for gone in self._gone[kind].values()
        )

    def shares(self, node: str, replicas: int) -> list[str]:
        own = self.places.id_of(node)
        return [own, *(f"{own}::{share}" for share in range(1, replicas))]

    def absent(self, kind: str) -> list[str]:
        return [node for node in nodes_of(kind) if node not in self.plugged]

    def _moved(self, node: str, now: float) -> None:
        self.epochs[node] += 1
        kind = kind_of(node)
        if kind in self.in_force:
            self._follow(kind, now, {node} & self._seen[kind], {node})

    def _take(self, now: float) -> Difference:
        """Put active what is on disk, if all of it is good."""
        if self.broken:
            return difference(self.in_force, self.in_force)
        before = {kind: self.offered(kind) for kind in self.kinds}
        after = self._wanted(self.on_disk)
        found = difference(self.in_force, after)
        self.in_force = after
        for kind in self.kinds:
            if kind not in self.in_force:
                self._gone[kind].clear()
                self._seen[kind].clear()
            else:
                self._follow(kind, now, self._seen[kind], before[kind] | self.offered(kind))
        return found

    def _follow(self, kind: str, now: float, seen: set[str], nodes: Iterable[str]) -> None:
        here = self.offered(kind)
        for node in nodes:
            if node in here:
                self._gone[kind].pop(node, None)
            elif node not in self._gone[kind]:
                self._gone[kind][node] = Gone(at=now, seen=node in seen)

    def _wanted(self, on_disk: Mapping[str, tuple[Spec, ...]], mended: str = "") -> dict[str, Spec]:
        if self.broken.keys() - {mended}:
            return self.in_force
        return {spec.type: spec for source in SOURCES for spec in on_disk[source]}
