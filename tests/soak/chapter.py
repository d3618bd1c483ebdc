"""A chapter of the soak: one step after the other, and all invariants after each of them."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from genericdp.kubelet.lifecycle import RegistrationTiming

from tests.soak.allocating import Allocating
from tests.soak.config import kind_of
from tests.soak.faults import CONFIG, DAEMON, HOST, RELOAD, Step, Steps, back_to_the_beginning
from tests.soak.figures import Taken
from tests.soak.invariants import (
    PROBE_PERIODS,
    TRUE_WITHIN_SECONDS,
    Violation,
    mistakes,
    registered_again,
)
from tests.soak.load import Mark
from tests.soak.record import Record
from tests.soak.resting import Resting
from tests.soak.sides import SimulatedSide
from tests.soak.world import World

_LOOK_SECONDS = 0.05
_STEPS_BETWEEN_RESTS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """The state before a step."""

    at: float
    registered: Mapping[str, object]
    sockets: Mapping[str, Path | None]
    lists: Mapping[str, int]
    configs_read: int


@dataclass(kw_only=True, eq=False)
class Chapter:
    """Runs steps on one world; ``journal`` is reported about each."""

    world: World
    steps: Steps
    allocating: Allocating
    resting: Resting | None
    journal: Callable[[str], None]

    @property
    def _record(self) -> Record:
        return self.world.record

    async def run(self, seconds: float) -> None:
        """Go on for this long; raises Violation, or an ExceptionGroup that holds one."""
        world, until = self.world, time.monotonic() + seconds
        await self._begin()
        async with asyncio.TaskGroup() as tasks:
            calling = tasks.create_task(self.allocating.run(), name="allocations")
            done = 0
            while time.monotonic() < until:
                if done % _STEPS_BETWEEN_RESTS == 0:
                    await self._rest()
                await self._do(self.steps.next(self._record))
                done += 1
            await self._rest()
            calling.cancel()
        await world.end_daemon(world.daemon, signal.SIGTERM)
        world.check_sockets()

    async def _begin(self) -> None:
        """Plug what there is in the beginning, and start the daemon."""
        world, record = self.world, self._record
        record.touch(record.kinds)
        for step in back_to_the_beginning(record):
            for node in step.nodes:
                await world.toggle(node)
        await world.measure_load()
        mark = await world.start_daemon()
        await self._settle(mark, self._limit(None), lambda: True)
        record.settle(time.monotonic())

    async def _rest(self) -> None:
        if self.resting is None:
            return
        for step in back_to_the_beginning(self._record):
            await self._do(step)
        self.journal("at rest")
        async with self.allocating.paused():
            await self.resting.look(self.world.daemon)

    async def _do(self, step: Step) -> None:
        self.journal(str(step))
        world, record, fault = self.world, self._record, step.fault
        touched, before = fault.touched(record, step), self._seen()
        anew = self._registers(step)
        record.touch(touched)
        mark = await fault.do(world, step) or world.load.mark(world.daemon.pid)
        for node in set(step.nodes) - record.plugged:
            # The daemon can hardly know yet that it has gone: Allocate has to look.
            if kind_of(node) in record.in_force:
                self.allocating.also(node)
        # The end of an old instance may take a new one's devices along for a moment (K10).
        # A real kubelet does not show when it has noticed that one registers again.
        unseen = anew and world.side.healthy_only
        hold = TRUE_WITHIN_SECONDS if fault.is_brief or unseen else 0.0
        taken = await self._settle(
            mark, self._limit(step), lambda: self._is_done(step, before, anew), hold=hold
        )
        if fault.is_unlisted:
            taken = await self._until_answered(step, mark, taken)
        record.settle(time.monotonic())
        world.figures.taken.setdefault(fault.name, []).append(taken)
        if fault is RELOAD:
            self._check_untouched(before, touched)
        await self._watch(mark, step.rest)
        if fault.of in {HOST, CONFIG}:
            self._check_registrations(before, anew)

    def _registers(self, step: Step) -> frozenset[str]:
        if step.fault is not RELOAD:
            return frozenset()
        change = self._record.would_change(step.source, step.specs)
        return change.added | change.removed | change.anew

    def _is_done(self, step: Step, before: Before, anew: frozenset[str]) -> bool:
        """Say whether what cannot be distinguished from the lists has happened, too."""
        world, record = self.world, self._record
        if step.fault.of == CONFIG and world.daemon.configs_read == before.configs_read:
            return False
        registered = self._registered()
        expected = anew & record.in_force.keys()
        if any(registered[kind] == before.registered[kind] for kind in expected):
            return False
        # In between, the old plugin has gone, and an empty list is true of the new one, too.
        if any(world.side.socket(kind) is None for kind in expected):
            return False
        # As long as the kubelet has not noticed the end of a stream, or while all devices are not
        # well anyway, its list is true by chance.
        ended = step.fault.touched(record, step) if step.fault.ends_streams else frozenset()
        connected = {kind: world.side.connected(kind) for kind in ended & record.in_force.keys()}
        return all(now and before.sockets.get(kind) not in now for kind, now in connected.items())

    def _limit(self, step: Step | None) -> float:
        slow = step is not None and step.fault.waits_for_probes(self._record)
        period = self._record.places.period
        in_doubt = step is not None and step.fault.amid_registrations
        doubt = RegistrationTiming().doubtful_stream(1) if in_doubt else 0.0
        loads = self._loads(step) * self.world.load_seconds
        return TRUE_WITHIN_SECONDS + (PROBE_PERIODS * period if slow else 0.0) + doubt + loads

    def _loads(self, step: Step | None) -> int:
        """Count the Pythons that the daemon has to wait for: they take what the machine needs."""
        if step is None or step.fault.of == DAEMON:
            # Itself, a child that loads the config, and one that loads the last good config.
            return 3 if self._record.broken else 2
        return 1 if step.fault.of == CONFIG else 0

    async def _settle(
        self, mark: Mark, limit: float, is_done: Callable[[], bool], *, hold: float = 0.0
    ) -> Taken:
        """Wait until the lists are true; raises Violation when that takes too long.

        ``hold``: they count as true if they still are, or are again, this many seconds after it
        was done. The time until they were true for good is what was taken.
        """
        world = self.world
        load, daemon = world.load, world.daemon
        true_since = done_at = None
        while True:
            daemon.look_at_log()
            wrong = await self._mistakes(mark)
            now = time.monotonic()
            is_over = is_done()
            done_at = now if is_over and done_at is None else done_at
            if wrong or not is_over:
                true_since = None
            elif true_since is None:
                true_since = now
            if true_since is not None and done_at is not None and now - done_at >= hold:
                return Taken(seconds=true_since - mark.at, limit=limit)
            load.look_at_children(mark, daemon.pid)
            if true_since is None and now - mark.at > limit:
                late = load.since(mark, daemon.pid)
                if now - mark.at > limit + late:
                    said = "; ".join(wrong[:8]) or "it has not said or done what it must"
                    raise Violation(
                        f"not true within {limit:.2f} s, nor {late:.2f} s later for want of a"
                        f" core: {said}"
                    )
            await world.side.changed(_LOOK_SECONDS)

    async def _until_answered(self, step: Step, mark: Mark, taken: Taken) -> Taken:
        """Wait until replaced devices can be allocated: no list reports them."""
        world, record = self.world, self._record
        offered = {node for kind in record.kinds for node in record.offered(kind)}
        for node in sorted(offered & set(step.nodes) - record.sick):
            while not await self.allocating.answers(node):
                late = world.load.since(mark, world.daemon.pid)
                if time.monotonic() - mark.at > taken.limit + late:
                    raise Violation(f"{node} was replaced and cannot be allocated")
                await asyncio.sleep(_LOOK_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps
        return await self._settle(mark, taken.limit, lambda: True)

    async def _watch(self, mark: Mark, seconds: float) -> None:
        """Look on for a while: what is true must stay so."""
        world, until = self.world, time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0:
            world.daemon.look_at_log()
            if wrong := await self._mistakes(mark):
                raise Violation(f"true at first, then not: {'; '.join(wrong[:8])}")
            await world.side.changed(rest)

    async def _mistakes(self, mark: Mark) -> list[str]:
        world = self.world
        listed = await world.side.lists()
        late = world.load.since(mark, world.daemon.pid)
        world.figures.checked += 1
        return mistakes(
            self._record,
            listed,
            time.monotonic(),
            patience=TRUE_WITHIN_SECONDS + late,
            healthy_only=world.side.healthy_only,
        )

    def _seen(self) -> Before:
        side = self.world.side
        lists = side.kubelet.observed.lists if isinstance(side, SimulatedSide) else {}
        return Before(
            at=time.monotonic(),
            registered=self._registered(),
            sockets={kind: side.socket(kind) for kind in self._record.kinds},
            lists={name.rpartition("/")[2]: n for name, n in lists.items()},
            configs_read=self.world.daemon.configs_read,
        )

    def _registered(self) -> dict[str, object]:
        """Give what differs after each registration: their number, and the socket."""
        side = self.world.side
        numbers = side.registrations()
        return {kind: (numbers.get(kind), side.socket(kind)) for kind in self._record.kinds}

    def _check_registrations(self, before: Before, anew: frozenset[str]) -> None:
        # What was removed a second ago still takes its leave.
        known = {k: entry for k, entry in self._registered().items() if k in self._record.in_force}
        if again := registered_again(before.registered, known, anew):
            raise Violation(f"registered again for no reason: {', '.join(again)}")

    def _check_untouched(self, before: Before, touched: frozenset[str]) -> None:
        """Count the resources that a reload left alone; raises Violation for any other."""
        record = self._record
        # One that forgets devices after a short time sends a list when it does.
        quiet = {k: s for k, s in record.in_force.items() if s.kind.forget in {0, 3600}}
        seen = self._seen()
        left_alone = {
            kind
            for kind in quiet.keys() - touched
            if not record.may_forget(kind, before.at, seen.at, patience=TRUE_WITHIN_SECONDS)
        }
        now = seen.lists
        if reported := sorted(k for k in left_alone if now.get(k) != before.lists.get(k)):
            raise Violation(f"a list although nothing of it has changed: {', '.join(reported)}")
        self.world.figures.spared += len(left_alone)
