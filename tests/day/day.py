"""One day of a busy node, in seconds that pass while nothing is in flight."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter, deque
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from genericdp.address import Address
from tests.day.held import Counts, Held, Objects, growths, held, more, slope
from tests.day.here import Node, Unloaded
from tests.soak.allocating import Allocating
from tests.soak.chapter import Chapter
from tests.soak.config import KINDS, Places, first_specs
from tests.soak.disk import Disk
from tests.soak.figures import Figures
from tests.soak.host import Host
from tests.soak.invariants import Violation
from tests.soak.record import Record
from tests.soak.sides import SimulatedSide
from tests.soak.steps import CONFIG, HOST, KUBELET, Do, Steps
from tests.world import Host as CopiedTree

if TYPE_CHECKING:
    from pathlib import Path

    from tests.day.clock import Clock

RESTS = 24
_FROM_REST = 2
"""Nothing may grow from this one on."""
_ABLE = (*HOST, *CONFIG, *KUBELET, Do.WIPE, Do.STORM, Do.STREAM)
"""Not FREEZE: gRPC's own deadlines would pass in real time."""
_KINDS = tuple(kind for kind in KINDS if kind not in {"loop", "exec"})
_PERIOD_SECONDS = 10
_ALLOCATE_EACH_SECONDS = 10.0
_SCRAPE_EACH_SECONDS = 60.0
_CALM_SECONDS = 10.0
"""What is under way (a probe, a farewell) has ended by then."""
_AGAIN_SECONDS = 3.7
"""Not in step with the probes."""
_LOOKS = 5
MEMORY_FROM_HOURS = 12
"""In less the pools of the allocators still grow to what bursts need."""


class Day:
    """Goes through one; what is violated is raised."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        seed: int,
        hours: float,
        pause: float,
        port: int,
        restarts: bool,
    ) -> None:
        self.journal: deque[str] = deque(maxlen=60)
        self.steps: Counter[str] = Counter()
        self.slowest: Counter[str] = Counter()
        """The longest time until the lists were true, in ms of the day, by what was done."""
        self.rests: list[Held] = []
        self._counts: Counts | None = None
        """Those that are compared with."""
        self._objects = Objects(RESTS)
        self._clock = clock
        self._seconds = hours * 3600
        self._pause = pause
        self._random = Random(f"{seed} pauses")
        self._began = clock.now
        self._real = time.monotonic()
        places = Places(folder="day", health="/health", period=_PERIOD_SECONDS)
        tree = CopiedTree(folder / "tree")
        for path in (tree.folder / "dev" / places.folder, tree.folder / "health"):
            path.mkdir()
        host = Host(root=tree.folder, places=places, kinds=_KINDS, copy=tree)
        self._side = SimulatedSide(folder / "k", now=self._now)
        self._record = Record(places, _KINDS)
        self.figures = Figures()
        self._world = Node(
            folder=folder,
            host=host,
            disk=Disk(folder, places, first_specs(_KINDS)),
            side=self._side,
            record=self._record,
            load=Unloaded(self._now),
            figures=self.figures,
            now=self._now,
        )
        for kind in _KINDS:
            for number in range(KINDS[kind].devices if KINDS[kind].probe else 0):
                host.set_health(f"{kind}-{number}", well=True)
        self._world.listen = Address(host="127.0.0.1", port=port)
        self._allocating = Allocating(
            self._record,
            self._side,
            Random(f"{seed} calls"),
            self.figures.tally,
            now=self._now,
            each_seconds=_ALLOCATE_EACH_SECONDS,
        )
        self._chapter = Chapter(
            self._world,
            # Else it lives all day long: its end would hide what grows in it.
            steps=Steps(Random(seed), (*_ABLE, Do.TERM) if restarts else _ABLE),
            allocating=self._allocating,
            resting=None,
            journal=self._note,
        )

    def _now(self) -> float:
        return self._clock.now

    def _note(self, text: str) -> None:
        self.journal.append(f"{(self._now() - self._began) / 3600:7.3f} h  {text}")

    async def run(self) -> None:
        """Live it."""
        await self._side.start("B")
        try:
            async with asyncio.TaskGroup() as tasks:
                self._world.tasks = tasks
                await self._chapter.begin()
                busy = [
                    tasks.create_task(self._allocating.run(), name="allocations"),
                    tasks.create_task(self._scrape_for_ever(), name="scrapes"),
                ]
                for number in range(1, RESTS + 1):
                    await self._part(self._began + number * self._seconds / RESTS)
                for one in busy:
                    one.cancel()
                await self._world.end_daemon(self._world.daemon, signal.SIGTERM)
                self._world.check_sockets()
        finally:
            await self._side.kubelet.stop()

    async def _part(self, until: float) -> None:
        """Be busy, then count at rest."""
        while (rest := until - _CALM_SECONDS * _LOOKS - self._now()) > 0:
            await asyncio.sleep(min(rest, self._random.expovariate(1 / self._pause)))
            if self._now() < until - _CALM_SECONDS * _LOOKS:
                await self._chapter.do_next()
        await self._chapter.go_back()
        self._take_figures()
        async with self._allocating.paused():
            await self._allocating.settle()
            await self._look()
        self._tell()
        await asyncio.sleep(max(0.0, until - self._now()))

    async def _look(self) -> None:
        """Count what there is, again as long as there is more of anything than before."""
        wrong: list[str] = []
        await asyncio.sleep(_CALM_SECONDS)
        for _ in range(_LOOKS):
            await asyncio.sleep(_AGAIN_SECONDS)
            await self._allocate_one_of_each()
            figures, counts, objects = held(self._now() - self._began, await self._scrape())
            wrong = [] if self._counts is None else more(self._counts, counts)
            if not wrong:
                self._objects.enter(len(self.rests), objects)
                self.rests.append(figures)
                self._counts = counts if len(self.rests) == _FROM_REST else self._counts
                return
        raise Violation(f"more than at rest {_FROM_REST}: {'; '.join(wrong)}")

    async def _allocate_one_of_each(self) -> None:
        """See that it can be had; gRPC keeps the last call of each server, with its failure."""
        for kind in self._record.in_force:
            for node in sorted(self._record.offered(kind))[:1]:
                if not await self._allocating.answers(node):
                    raise Violation(f"{node} cannot be allocated at rest")

    def _take_figures(self) -> None:
        """Keep sums only: else the day itself would grow."""
        for what, many in self.figures.taken.items():
            self.steps[what] += len(many)
            slowest = max(round(one.seconds * 1000) for one in many)
            self.slowest[what] = max(self.slowest[what], slowest)
        self.figures.taken.clear()
        self.figures.tally.milliseconds.clear()
        self._side.kubelet.observed.history.clear()

    async def _scrape_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_SCRAPE_EACH_SECONDS)
            await self._scrape()

    async def _scrape(self) -> int:
        """Ask for the metrics as Prometheus does; give how many series there are."""
        address = self._world.listen
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read(-1)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise Violation(f"/metrics answered {answer[:40]!r}")
        body = answer.partition(b"\r\n\r\n")[2]
        return sum(1 for line in body.splitlines() if line and not line.startswith(b"#"))

    def _tell(self) -> None:
        real = time.monotonic() - self._real
        print(row(self.rests[-1], sum(self.steps.values()), real), flush=True)

    def log(self) -> list[str]:
        """Give the last lines of the daemon's log."""
        return list(self._world.here.told.lines) if self._world.daemons else []

    def conclude(self) -> list[str]:
        """Say what has grown."""
        if self._seconds < MEMORY_FROM_HOURS * 3600:
            return []
        times = [one.at for one in self.rests]
        first = _FROM_REST - 1
        return growths(self.rests[first:]) + self._objects.growths(times, first)

    def summary(self) -> str:
        """Give what was done, and the slopes."""
        tally, kept = self.figures.tally, self.rests[_FROM_REST - 1 :]
        return "\n".join(
            [
                "steps (longest until the lists were true, in ms of the day): "
                + ", ".join(f"{n} {what} ({self.slowest[what]})" for what, n in self.steps.items()),
                f"Allocate: {tally.made} calls, {tally.answered} answered, {tally.refused} refused,"
                f" {tally.unreachable} while no plugin was registered,"
                f" {tally.for_gone} for devices that were gone",
                f"lists compared with the record: {self.figures.checked} times; kubelets started:"
                f" {sum(self._side.starts.values())}; lines of the daemon's log:"
                f" {self._world.here.told.count}",
                f"time: {self._clock.jumps} jumps,"
                f" {self._clock.waits} waits for what was in flight",
                "by their slopes, from the second rest to the last: "
                + ", ".join(
                    f"{what} {slope(kept, what):+.1f}"
                    for what in ("blocks", "entries", "given_out", "resident")
                ),
            ]
        )


HEAD = (
    "  hours   real s  steps   resident MB  given out kB   blocks  entries  objects"
    "  descriptors  tasks  series  events"
)


def row(one: Held, steps: int, real: float) -> str:
    """Lay out one rest."""
    return (
        f"{one.at / 3600:7.2f} {real:8.1f} {steps:6d} {one.resident:13.2f} {one.given_out:13.1f}"
        f" {one.blocks:8d} {one.entries:8d} {one.objects:8d}"
        f" {one.descriptors:12d} {one.tasks:6d} {one.series:7d} {one.events:7d}"
    )
