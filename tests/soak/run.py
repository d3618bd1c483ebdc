"""The chapters of a soak one after the other, its progress, and its report."""

from __future__ import annotations

import asyncio
import os
import platform
import random
import sys
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from tests.soak import real
from tests.soak.allocating import Allocating
from tests.soak.chapter import Chapter
from tests.soak.config import KINDS, first_specs
from tests.soak.disk import Disk
from tests.soak.faults import DAEMON, FAULTS, ROLL, SIMULATED, Fault, Steps
from tests.soak.figures import Figures
from tests.soak.host import host
from tests.soak.invariants import Violation
from tests.soak.load import Load
from tests.soak.record import Record
from tests.soak.resting import Resting
from tests.soak.sides import Side, SimulatedSide
from tests.soak.world import World

_PROGRESS_SECONDS = 5.0
_LAST_STEPS = 200
_LAST_LINES = 400
# The real ones first: it has just been seen that no one else has one.
_SHARES = {"real": 0.2, "restarts": 0.3, "one life": 0.5}
_ONE_LIFE = [fault for fault in FAULTS if fault.of != DAEMON]
_REAL = [fault for fault in FAULTS if fault.of != SIMULATED and fault is not ROLL]


class Book:
    """Owns what all chapters share."""

    def __init__(self, *, directory: Path, seed: int, seconds: float) -> None:
        self._directory = directory
        self._seed = seed
        self._seconds = seconds
        self._begun = time.monotonic()
        self._figures = Figures()
        self._load = Load()
        self._journal: list[str] = []
        self._title = ""
        self._world: World | None = None
        self._left_out: list[str] = []

    async def run(self, kubelets: str) -> str:
        """Run all; gives what was violated, empty if nothing was."""
        self._say(f"seed {self._seed}, {self._seconds:.0f} s")
        found: list[str] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._load.watch(), name="load"),
                    tasks.create_task(self._tell_progress(), name="progress"),
                ]
                await self._chapters(kubelets)
                for task in background:
                    task.cancel()
        except* Violation as violations:
            found = _flat(violations)
        return "; ".join(found)

    async def _chapters(self, kubelets: str) -> None:
        shares = dict(_SHARES)
        versions, why_not = real.versions(self._seed, self._seconds)
        if kubelets == "simulated":
            versions, why_not = (), "only simulated ones are requested"
        if not versions:
            self._left_out.append(f"no real kubelet: {why_not}")
            shares["one life"] += shares.pop("real")
        if kubelets == "real":
            if not versions:
                raise Violation(f"nothing was done, for want of a real kubelet: {why_not}")
            shares = {"real": 1.0}
        whole = sum(shares.values())
        for name, share in shares.items():
            seconds = self._seconds * share / whole
            if name == "real":
                for version in versions:
                    await self._real(version, seconds / len(versions))
            else:
                await self._simulated(name, seconds)

    async def _simulated(self, name: str, seconds: float) -> None:
        directory = self._directory / name.replace(" ", "-")
        directory.mkdir()
        side = SimulatedSide(directory / "k")
        await side.start("B")
        try:
            if name == "restarts":
                await self._chapter(name, side, seconds, FAULTS, directory)
            else:
                await self._chapter(name, side, seconds, _ONE_LIFE, directory, Resting(seconds))
        finally:
            self._figures.kubelets.update(side.starts)
            await side.kubelet.stop()

    async def _real(self, version: str, seconds: float) -> None:
        directory = self._directory / version
        directory.mkdir()
        self._title = f"starting kubelet {version}"
        async with real.side(version, directory / "node") as side:
            await self._chapter(f"kubelet {version}", side, seconds, _REAL, directory)
            self._figures.kubelets.update(side.starts)

    async def _chapter(
        self,
        name: str,
        side: Side,
        seconds: float,
        able: Collection[Fault],
        directory: Path,
        resting: Resting | None = None,
    ) -> None:
        self._title = name
        self._note(f"--- {name}")
        with host(directory) as machine:
            if machine.without and machine.without not in self._left_out:
                self._left_out.append(machine.without)
            record = Record(machine.places, machine.kinds)
            for kind in machine.kinds:
                if KINDS[kind].probe:
                    for number in range(KINDS[kind].devices):
                        machine.set_health(f"{kind}-{number}", well=True)
            disk = Disk(directory, machine.places, first_specs(machine.kinds))
            world = self._world = World(
                directory=directory,
                host=machine,
                disk=disk,
                side=side,
                record=record,
                load=self._load,
                figures=self._figures,
            )
            calls = Allocating(record, side, self._random(f"{name} calls"), self._figures.tally)
            steps = Steps(self._random(name), able)
            chapter = Chapter(
                world=world, steps=steps, allocating=calls, resting=resting, journal=self._note
            )
            async with _ended(world):
                await chapter.run(seconds)
                if resting is not None:
                    resting.conclude(self._figures)

    def _random(self, what: str) -> random.Random:
        """Give one for each purpose: what happens in one chapter is not a matter of the others."""
        return random.Random(f"{self._seed} {what}")

    def _note(self, step: str) -> None:
        self._journal.append(f"{time.monotonic() - self._begun:8.2f} s  {step}")

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)  # noqa: TID251 -- the pauses of a soak are its steps
            figures = self._figures
            self._say(
                f"{self._title}: {len(figures.all_taken())} steps, {figures.tally.made} Allocates,"
                f" lists true in {figures.worst:.2f} s at most"
            )

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:5.0f} s  {text}", file=sys.stderr, flush=True)

    def report(self, seconds: float) -> str:
        machine = (
            f"soak: seed {self._seed}, {seconds:.0f} s, {len(self._figures.all_taken())} steps;"
            f" {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f},"
            f" kernel {platform.release()}, python {platform.python_version()}"
        )
        left_out = [f"left out: {entry}" for entry in self._left_out]
        return "\n".join(["", machine, *left_out, "", self._figures.table()])

    def account(self, broken: str) -> str:
        """Give what was violated, the steps that led there, and the daemons' last lines."""
        logs: list[str] = []
        if self._world is not None:
            for daemon in self._world.daemons[-2:]:
                lines = daemon.log.read_text(errors="replace").splitlines()
                values = [line for line in lines if "Allocate refused: " not in line]
                logs += [f"\nthe log of {daemon.log.stem}, without refusals of Allocate:"]
                logs += values[-_LAST_LINES:]
        steps = self._journal[-_LAST_STEPS:]
        return "\n".join(
            [*logs, "\nthe steps:", *steps, f"\nVIOLATED (seed {self._seed}): {broken}"]
        )


@asynccontextmanager
async def _ended(world: World) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for daemon in world.daemons:
            if daemon.process.returncode is None:
                daemon.process.kill()
                await daemon.process.wait()


def _flat(group: BaseExceptionGroup[BaseException]) -> list[str]:
    found: list[str] = []
    for exception in group.exceptions:
        found += _flat(exception) if isinstance(exception, BaseExceptionGroup) else [str(exception)]
    return found
