"""Counts and durations of what has happened, for ``/metrics``.

They are changed only on the event loop. Another thread may read them meanwhile, so dictionaries
never gain or lose keys: they are replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.model import Resource

AllocationResult = Literal["success", "unusable", "invalid", "timeout", "cancelled", "error"]
"""``unusable``: a device could not be used; ``invalid``: it does not exist; ``cancelled``: the
kubelet disconnected; ``error``: anything else.
"""
RegistrationResult = Literal["success", "refused", "failure"]
"""``success``: the stream has opened; ``refused``: for a permanent reason, such as the name."""
RunResult = Literal["success", "failure"]
"""Results of a probe or a hook."""
ReloadResult = Literal["applied", "unchanged", "refused"]
"""Outcomes of reading a config."""
EventKind = Literal[
    "add", "remove", "change", "move", "bind", "unbind", "online", "offline", "other",
    "record", "file", "resync",
]  # fmt: skip
"""The kernel's actions; a record of udev; an entry of a directory; ``resync``: read everything."""

BOUNDS = (0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
"""Upper bounds of the buckets of all durations, in seconds; the last bucket has no bound. The
threshold of an alert has to be one of them, because values in between are estimates.
"""


def _zeros(results: Any) -> dict[str, int]:  # noqa: ANN401  # a Literal has no other type
    """Return a count of 0 for each, because another thread reads the dict while it is counted."""
    return dict.fromkeys(get_args(results), 0)


@dataclass(slots=True)
class Durations:
    """A histogram of durations."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """Counts by bucket, each above the previous bound and up to its own."""
    seconds: float = 0.0
    """Sum of all durations."""

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class ProbeTally:
    """Runs of one probe of a resource, for all its devices."""

    name: str
    results: dict[str, int] = field(default_factory=lambda: _zeros(RunResult))


@dataclass(slots=True)
class ResourceTally:
    """Counts of one resource."""

    allocations: dict[str, int] = field(default_factory=lambda: _zeros(AllocationResult))
    allocation_seconds: Durations = field(default_factory=Durations)
    """Shared by all resources, like ``probe_seconds``: each histogram has 14 series."""
    probe_seconds: Durations = field(default_factory=Durations)
    registrations: dict[str, int] = field(default_factory=lambda: _zeros(RegistrationResult))
    updates: int = 0
    """Lists sent on streams."""
    forgotten: int | None = None
    """Devices that were forgotten; None if there has never been one."""
    probes: dict[int, ProbeTally] = field(default_factory=dict)
    """Counts by the probe's place in the config."""
    hooks: dict[str, dict[str, int]] = field(default_factory=dict)

    def forgot(self, devices: int) -> None:
        """Count devices that the list has forgotten; 0 once it has any that it could forget."""
        self.forgotten = (self.forgotten or 0) + devices

    def allocated(self, result: AllocationResult, seconds: float) -> None:
        """Count an Allocate or the preparation of a claim."""
        self.allocations[result] += 1
        self.allocation_seconds.add(seconds)

    def probed(self, index: int, *, ok: bool, seconds: float) -> None:
        """Count the result of a probe, unless the probe is no longer in the config."""
        if (probe := self.probes.get(index)) is not None:
            probe.results["success" if ok else "failure"] += 1
            self.probe_seconds.add(seconds)

    def hooked(self, hook: str, *, ok: bool) -> None:
        """Count the result of a hook, unless the hook is no longer in the config."""
        if (results := self.hooks.get(hook)) is not None:
            results["success" if ok else "failure"] += 1

    def keep(self, resource: Resource) -> None:
        """Keep counts for the current probes and hooks of a resource, and drop others."""
        probes, hooks = {probe.name: probe for probe in self.probes.values()}, self.hooks
        self.probes = {
            index: probes.get(name) or ProbeTally(name)
            for index, name in enumerate(probe_names(resource))
            # A probe that follows a log has no results to count.
            if resource.health[index].check.is_run
        }
        self.hooks = {name: hooks.get(name) or _zeros(RunResult) for name in resource.hooks}


@dataclass(slots=True)
class Tally:
    """Counts of this process."""

    resources: dict[str, ResourceTally] = field(default_factory=dict)
    discovery: Durations = field(default_factory=Durations)
    allocation_seconds: Durations = field(default_factory=Durations)
    probe_seconds: Durations = field(default_factory=Durations)
    events: dict[str, int] = field(default_factory=lambda: _zeros(EventKind))
    reloads: dict[str, int] = field(default_factory=lambda: _zeros(ReloadResult))
    requests: dict[tuple[str, str], int] = field(default_factory=dict)
    """Requests to the API server, by verb and result."""

    def requested(self, verb: str, result: str) -> None:
        """Count a request to the API server."""
        key = verb, result
        self.requests = {**self.requests, key: self.requests.get(key, 0) + 1}

    def keep(self, wanted: Mapping[str, Resource]) -> None:
        """Keep counts for these resources, by name, and drop others."""
        before = self.resources
        self.resources = {
            name: before.get(name)
            or ResourceTally(
                allocation_seconds=self.allocation_seconds, probe_seconds=self.probe_seconds
            )
            for name in wanted
        }
        for name, resource in wanted.items():
            self.resources[name].keep(resource)

    def of(self, resource: str) -> ResourceTally:
        """Return the counts of a resource; those of an unknown one are discarded."""
        return self.resources.get(resource) or ResourceTally()

    def happened(self, kind: str) -> None:
        """Count an event; a future kernel may know other actions."""
        self.events[kind if kind in self.events else "other"] += 1


def probe_names(resource: Resource) -> tuple[str, ...]:
    """Return kind and place of each probe of a resource (``exec-0``), in the config's order."""
    kinds = (probe.check.kind for probe in resource.health)
    return tuple(f"{kind}-{index}" for index, kind in enumerate(kinds))
