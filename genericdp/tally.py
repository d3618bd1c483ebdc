"""How often things have happened and how long they took: counted here, shown elsewhere.

All of it is touched on the loop only; who shows it takes a ``copy`` there.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from genericdp.model import Command, FileCheck, OpenCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.model import Resource

Name = TypeVar("Name")

AllocationResult = Literal["success", "unusable", "invalid", "timeout", "cancelled", "error"]
"""``unusable``: a device could not be given; ``invalid``: asked for what is not there;
``cancelled``: the kubelet went away; ``error``: a mistake of ours."""
RegistrationResult = Literal["success", "refused", "failure"]
"""``success``: the stream has opened; ``refused``: for what stays so, such as the name."""
RunResult = Literal["success", "failure"]
"""Of a probe or a hook."""
ReloadResult = Literal["applied", "unchanged", "refused"]
"""What became of a config that was read."""
EventKind = Literal[
    "add", "remove", "change", "move", "bind", "unbind", "online", "offline", "other",
    "record", "file", "resync",
]  # fmt: skip
"""The kernel's actions; a record of udev; an entry of a folder; ``resync``: look at everything."""

BOUNDS = (0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
"""Of the buckets of all durations, in seconds; the last one is without bound.

What an alert asks for has to be one of them: between two, all that is known is guessed.
"""

_KINDS: Mapping[str, EventKind] = {kind: kind for kind in get_args(EventKind)}


@dataclass(slots=True)
class Durations:
    """How many took how long."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """By bucket: above the bound before it, up to its own."""
    seconds: float = 0.0
    """Of all together."""

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def copy(self) -> Durations:
        """Return them as they are now."""
        return Durations(list(self.counts), self.seconds)

    @property
    def cumulative(self) -> list[int]:
        """How many took at most each bound; last: all."""
        return list(accumulate(self.counts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """What a resource has by its config, as its series are called."""

    probes: Mapping[int, str] = field(default_factory=dict)
    """Kind and place of each probe that is run (``exec-0``), by its place."""
    hooks: tuple[str, ...] = ()


@dataclass(slots=True)
class ProbeTally:
    """One probe of a resource, for all its devices."""

    label: str
    results: dict[RunResult, int] = field(default_factory=lambda: _zeros(get_args(RunResult)))
    seconds: Durations = field(default_factory=Durations)

    def copy(self) -> ProbeTally:
        """Return it as it is now."""
        return ProbeTally(self.label, dict(self.results), self.seconds.copy())


@dataclass(slots=True)
class ResourceTally:
    """What has happened with one resource."""

    allocations: dict[AllocationResult, int] = field(
        default_factory=lambda: _zeros(get_args(AllocationResult))
    )
    allocation_seconds: Durations = field(default_factory=Durations)
    registrations: dict[RegistrationResult, int] = field(
        default_factory=lambda: _zeros(get_args(RegistrationResult))
    )
    updates: int = 0
    """Lists sent on streams."""
    probes: dict[int, ProbeTally] = field(default_factory=dict)
    """By the probe's place in the config."""
    hooks: dict[str, dict[RunResult, int]] = field(default_factory=dict)

    def allocated(self, result: AllocationResult, seconds: float) -> None:
        """Count an Allocate."""
        self.allocations[result] += 1
        self.allocation_seconds.add(seconds)

    def probed(self, index: int, *, ok: bool, seconds: float) -> None:
        """Count a probe's result; one of a probe that is no longer in the config is not."""
        if (probe := self.probes.get(index)) is not None:
            probe.results["success" if ok else "failure"] += 1
            probe.seconds.add(seconds)

    def hooked(self, hook: str, *, ok: bool) -> None:
        """Count a hook's result; one of a hook that is no longer in the config is not."""
        if (results := self.hooks.get(hook)) is not None:
            results["success" if ok else "failure"] += 1

    def keep(self, labels: Labels) -> None:
        """Count for these probes and hooks, and no others."""
        probes, hooks = self.probes, self.hooks
        self.probes = {
            index: known
            if (known := probes.get(index)) is not None and known.label == label
            else ProbeTally(label)
            for index, label in labels.probes.items()
        }
        self.hooks = {name: hooks.get(name) or _zeros(get_args(RunResult)) for name in labels.hooks}

    def copy(self) -> ResourceTally:
        """Return it as it is now."""
        return ResourceTally(
            dict(self.allocations),
            self.allocation_seconds.copy(),
            dict(self.registrations),
            self.updates,
            {index: one.copy() for index, one in self.probes.items()},
            {name: dict(one) for name, one in self.hooks.items()},
        )


@dataclass(slots=True)
class Tally:
    """What has happened in this process; ``keep`` says of which resources."""

    resources: dict[str, ResourceTally] = field(default_factory=dict)
    discovery: Durations = field(default_factory=Durations)
    events: dict[EventKind, int] = field(default_factory=lambda: _zeros(get_args(EventKind)))
    reloads: dict[ReloadResult, int] = field(default_factory=lambda: _zeros(get_args(ReloadResult)))

    def keep(self, wanted: Mapping[str, Labels]) -> None:
        """Count for these resources; what was counted for others is gone."""
        before = self.resources
        self.resources = {name: before.get(name) or ResourceTally() for name in wanted}
        for name, labels in wanted.items():
            self.resources[name].keep(labels)

    def of(self, resource: str) -> ResourceTally:
        """Return where to count for a resource; of one that is not kept, nobody will see it."""
        return self.resources.get(resource) or ResourceTally()

    def happened(self, kind: str) -> None:
        """Count an event; a kernel of tomorrow may know other actions."""
        self.events[_KINDS.get(kind, "other")] += 1

    def copy(self) -> Tally:
        """Return it as it is now, for another thread."""
        return Tally(
            {name: one.copy() for name, one in self.resources.items()},
            self.discovery.copy(),
            dict(self.events),
            dict(self.reloads),
        )


def _zeros(names: Iterable[Name]) -> dict[Name, int]:
    # From the start: what jumps from nothing to one is no increase to Prometheus.
    return dict.fromkeys(names, 0)


_PROBE_KINDS = {Command: "exec", FileCheck: "file", OpenCheck: "open"}
"""The kernel's log is followed, not asked: it has no results that could be counted."""


def labels(resource: Resource) -> Labels:
    """Return the probes and hooks that a resource has."""
    kinds = ((i, _PROBE_KINDS.get(type(one.check))) for i, one in enumerate(resource.health))
    hooks = {"allocate": resource.hooks.allocate, "preStart": resource.hooks.pre_start}
    return Labels(
        probes={index: f"{kind}-{index}" for index, kind in kinds if kind},
        hooks=tuple(name for name, hook in hooks.items() if hook is not None),
    )
