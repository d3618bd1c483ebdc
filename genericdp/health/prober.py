"""Runs the probes of all resources, each in its time, and tells which devices are not well."""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.checks import FileRead
from genericdp.health.slots import Slots
from genericdp.health.thresholds import WELL
from genericdp.health.watched import Watched, asks_the_same, is_same_device, watched
from genericdp.observed import Observed, until
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.health.kinds import RunProbes
    from genericdp.host.root import Root

log = logging.getLogger(__name__)

FIRST_ROUND_SECONDS = 5.0
"""How long a resource waits for its first results before it registers."""
_ENTERED_AT_ONCE = 500
"""Of the results of a batch; after 3 ms the loop has its turn."""
_MOST_OF_RESOURCE = 4
"""Commands and ``open`` probes of one resource that run at once."""
_PAUSE = 0.005
"""Seconds in which what is news goes to the kubelet, before the rest of a batch is entered."""


Job = tuple[Watched, int]
"""A device, and which of its probes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeRun:
    """One result, for whoever counts them."""

    resource: str
    device_id: str
    index: int
    """Which probe of the resource, in the order of the config."""
    outcome: Outcome


@dataclass(slots=True)
class _Resource:
    """The devices of one resource under probes."""

    devices: dict[str, Watched] = field(default_factory=dict)
    """By id."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Of those that are not well."""
    unsettled: set[str] = field(default_factory=set)
    """Those that lack a first result."""


class Prober:
    """Owns the running probes; ``watch`` says of which devices, ``run`` does the rest."""

    def __init__(
        self,
        root: Root,
        *,
        run_probes: RunProbes,
        changed: Callable[[str, Mapping[str, str]], None],
        told: Callable[[ProbeRun], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._changed = changed
        """Called with a resource and the devices whose reason is another one now (by id; empty:
        well)."""
        self._told = told
        self._now = now
        self._run_probes = run_probes
        self._resources: dict[str, _Resource] = {}
        self._heap: list[tuple[float, int, Watched]] = []
        self._entered = 0
        self._slots = Slots(most_of_owner=_MOST_OF_RESOURCE)
        self._busy: set[tuple[str, str]] = set()
        """Resource and id of each device one of whose probes waits for its turn or runs."""
        self._news = Observed(0)

    def watch(self, resource: str, devices: Mapping[str, Device], *, delayed: bool = True) -> None:
        """Probe these devices (by id) of a resource from now on, and no others of it.

        A device that is new here is not well before its first results; without ``delayed`` they
        are had at once, since it was there before. Results are kept while it is the same device.
        """
        known = self._resources.get(resource)
        if known is None:
            if not any(one.probes for one in devices.values()):
                return
            known = self._resources[resource] = _Resource()
        kept = known.devices
        known.devices = {}
        for device_id, device in devices.items():
            if device.probes:
                old = kept.get(device_id)
                # Mostly nothing has changed, of thousands.
                same = old is not None and old.device is device
                known.devices[device_id] = (
                    old if old is not None and same else self._kept(old, resource, device, delayed)
                )
        for device_id in kept.keys() - known.devices.keys():
            known.reasons.pop(device_id, None)
            known.unsettled.discard(device_id)
        self._news.value += 1

    def forget(self, resource: str) -> None:
        """Probe nothing of a resource any more."""
        self._resources.pop(resource, None)
        self._news.value += 1

    def reasons(self, resource: str) -> Mapping[str, str]:
        """Give the devices of a resource that are not well, by id, and why."""
        known = self._resources.get(resource)
        return {} if known is None else known.reasons

    def results(self, resource: str) -> Mapping[str, tuple[Outcome | None, ...]]:
        """Give the latest result of each probe, in the order of the config, by the device's id."""
        known = self._resources.get(resource)
        devices = {} if known is None else known.devices
        return {
            name: tuple(one.last.get(i) for i in range(len(one.device.probes)))
            for name, one in devices.items()
        }

    async def first_round(
        self, resource: str, *, timeout_seconds: float = FIRST_ROUND_SECONDS
    ) -> bool:
        """Wait until all devices of a resource have their first results; False: not in time."""

        def settled() -> bool:
            known = self._resources.get(resource)
            return known is None or not known.unsettled

        return await until(settled, self._news, timeout_seconds=timeout_seconds)

    async def run(self) -> None:
        """Run probes forever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                seen = self._news.value
                batches, jobs = self._take_due()
                for batch in batches:
                    tasks.create_task(self._probe_many(batch), name="probes of files")
                for job in jobs:
                    tasks.create_task(self._probe(job), name=f"probe {job[0].device.id}")
                rest = self._heap[0][0] - self._now() if self._heap else None
                if rest is None or rest > 0:
                    await until(
                        lambda seen=seen: self._news.value != seen,  # type: ignore[misc]
                        self._news,
                        timeout_seconds=rest,
                    )

    def _kept(
        self,
        old: Watched | None,
        resource: str,
        device: Device,
        delayed: bool,  # noqa: FBT001
    ) -> Watched:
        if old is not None and is_same_device(old.device, device):
            if asks_the_same(old.device, device):
                old.device = device
                return old
            well = not old.reason
            made = watched(resource, device, self._now(), delayed=False, presumed_well=well)
        else:
            made = watched(resource, device, self._now(), delayed=delayed)
        self._tell_reason(made)
        self._plan(made)
        return made

    def _plan(self, one: Watched) -> None:
        due = one.next_due
        if due is not None:
            self._entered += 1
            heapq.heappush(self._heap, (due, self._entered, one))

    def _current(self, one: Watched) -> Watched | None:
        known = self._resources.get(one.resource)
        return None if known is None else known.devices.get(one.device.id)

    def _take_due(self) -> tuple[list[list[Job]], list[Job]]:
        """Return what is due: batches of ``file`` probes, and the jobs that need a slot each.

        Reading a file costs less than a slot. Probes of one device never overlap.
        """
        now = self._now()
        batches: dict[tuple[str, int], list[Job]] = {}
        jobs: list[Job] = []
        while self._heap and self._heap[0][0] <= now:
            one = heapq.heappop(self._heap)[2]
            name = (one.resource, one.device.id)
            index = one.take_due(now)
            if index is None or name in self._busy or self._current(one) is not one:
                continue
            self._busy.add(name)
            bound = one.device.probes[index]
            if isinstance(bound.check, FileRead):
                alike = (one.resource, bound.probe.timeout_seconds)
                batches.setdefault(alike, []).append((one, index))
            else:
                jobs.append((one, index))
        return list(batches.values()), jobs

    async def _probe(self, job: Job) -> None:
        try:
            async with self._slots.slot(job[0].resource):
                if self._current(job[0]) is job[0]:
                    self._enter(job, (await self._outcomes([job]))[0])
        finally:
            self._end([job])

    async def _probe_many(self, jobs: list[Job]) -> None:
        for part in _parts(jobs, await self._outcomes(jobs)):
            for job, outcome in part:
                self._enter(job, outcome)
            self._end([job for job, _ in part])
            await asyncio.sleep(_PAUSE)

    def _end(self, jobs: Sequence[Job]) -> None:
        for one, _ in jobs:
            self._busy.discard((one.resource, one.device.id))
            current = self._current(one)
            if current is not None:
                self._plan(current)
        self._news.value += 1

    async def _outcomes(self, jobs: Sequence[Job]) -> Sequence[Outcome]:
        begun = self._now()
        resource = jobs[0][0].resource
        runs = [(one.device.probes[index], one.device) for one, index in jobs]
        try:
            return await self._run_probes(runs, resource, self._root)
        except Exception as error:
            # A mistake of ours in one probe must not end those of all other devices (K6).
            only = jobs[0][0].device.id if len(jobs) == 1 else ""
            log.exception("unexpected failure", extra={"resource": resource, "device": only})
            reason = f"unexpected failure: {error}"
            return [Outcome(reason=reason, seconds=self._now() - begun)] * len(jobs)

    def _enter(self, job: Job, outcome: Outcome) -> None:
        """Take a result; tell if it makes a difference to what a person or kubelet sees."""
        one, index = job
        if self._current(one) is not one:
            return
        state = one.states[index]
        one.enter(index, outcome, self._now())
        self._told(
            ProbeRun(resource=one.resource, device_id=one.device.id, index=index, outcome=outcome)
        )
        if one.states[index] is state:
            return  # as mostly: it is still well
        before = self.reasons(one.resource).get(one.device.id, "")
        reason = self._tell_reason(one)
        if reason != before:
            self._changed(one.resource, {one.device.id: reason})

    def _tell_reason(self, one: Watched) -> str:
        known, device_id, reason = self._resources[one.resource], one.device.id, one.reason
        if reason:
            known.reasons[device_id] = reason
        else:
            known.reasons.pop(device_id, None)
        if one.is_settled:
            known.unsettled.discard(device_id)
        else:
            known.unsettled.add(device_id)
        return reason


def _parts(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> Iterator[list[tuple[Job, Outcome]]]:
    """Take a batch apart: first what may be news to the kubelet, then the many that stay well."""
    kinds: tuple[list[tuple[Job, Outcome]], ...] = ([], [])
    for job, outcome in zip(jobs, outcomes, strict=True):
        one, index = job
        kinds[outcome.ok and one.states[index] is WELL].append((job, outcome))
    for kind in kinds:
        for begin in range(0, len(kind), _ENTERED_AT_ONCE):
            yield kind[begin : begin + _ENTERED_AT_ONCE]
