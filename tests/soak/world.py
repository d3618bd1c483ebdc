"""Does what a step says, and enters it in the record: nodes, config, kubelet, daemon."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from tests.soak.daemon import Daemon
from tests.soak.invariants import ENDED_WITHIN_SECONDS, Violation
from tests.soak.sides import SimulatedSide
from tests.soak.steps import DAEMON, HOST, KUBELET, KUBELET_FAULTS, Do

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.soak.disk import Disk
    from tests.soak.figures import Figures
    from tests.soak.host import Host
    from tests.soak.load import Load, Mark
    from tests.soak.record import Record
    from tests.soak.sides import Side
    from tests.soak.steps import Step


class World:
    """Everything of one chapter that a step can change."""

    def __init__(
        self,
        *,
        directory: Path,
        host: Host,
        disk: Disk,
        side: Side,
        record: Record,
        load: Load,
        figures: Figures,
        package: Path | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.host = host
        self.disk = disk
        self.side = side
        self.record = record
        self.load = load
        self.figures = figures
        self.package = package or Path(__file__).parents[2]
        """The directory that the daemon is taken from."""
        self.now = now
        """The clock of all that is owed in time."""
        self.daemons: list[Daemon] = []
        """All that have run; the last one counts."""
        self.load_seconds = 0.0
        """What a new Python that loads the config takes on this machine, measured in this run."""
        self._numbers = count(1)
        self._crashed: set[str] = set()
        """Sockets of those that were killed."""

    @property
    def daemon(self) -> Daemon:
        """The one that runs."""
        return self.daemons[-1]

    def touched(self, step: Step) -> frozenset[str]:
        """Give the types whose lists the step may change, or take away for a while."""
        if step.do in HOST or step.do is Do.REST:
            return frozenset(node.rpartition("-")[0] for node in step.nodes)
        if step.do is Do.RELOAD:
            return self.record.would_change(step.source, step.specs).touched
        if step.do is Do.STREAM:
            return frozenset({step.kind})
        return frozenset() if step.do in {Do.BREAK, Do.HANGUP} else frozenset(self.record.kinds)

    async def act(self, step: Step) -> Mark:
        """Do it; gives the moment from which the lists have to become true."""
        if step.do in HOST or step.do is Do.REST:
            await self._change_host(step)
        elif step.do in {Do.RELOAD, Do.BREAK, Do.HANGUP}:
            self._change_config(step)
        elif step.do in KUBELET:
            self.record.broken_streams.clear()
            return await self._restart_kubelet(step, step.do)
        elif step.do in KUBELET_FAULTS:
            return await self._trouble_kubelet(step)
        elif step.do in DAEMON:
            return await self._replace_daemon(step)
        return self.load.mark(self.daemon.pid)

    async def start_daemon(self) -> Mark:
        """Start one; gives when."""
        mark = self.load.mark(None)
        arguments = (
            f"--config={self.disk.volume}",
            f"--config={self.disk.plain}",
            f"--kubelet-dir={self.side.directory}",
            f"--state-dir={self.directory / 'state'}",
            f"--root={self.host.root}",
        )
        log = self.directory / f"daemon-{next(self._numbers)}.log"
        self.daemons.append(await Daemon.start(log, arguments, self.package))
        return mark

    async def measure_load(self) -> None:
        """Measure what a new Python that loads the config takes."""
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "genericdp", "validate", self.disk.volume),
            *(self.disk.plain,),
            env={"PYTHONPATH": str(self.package)},
            stdout=asyncio.subprocess.DEVNULL,
        )
        if code := await process.wait():
            raise Violation(f"genericdp validate says {code} of the first config")
        self.load_seconds = time.monotonic() - begun

    async def end_daemon(self, daemon: Daemon, number: signal.Signals) -> None:
        """End one; after SIGTERM nothing of it is left."""
        before = self._sockets()
        mark = self.load.mark(daemon.pid)
        took = await daemon.end(number)
        if number is signal.SIGKILL:
            self._crashed |= before
            return
        late = self.load.since(mark, daemon.pid)
        if took > ENDED_WITHIN_SECONDS + late:
            raise Violation(f"SIGTERM took {took:.2f} s to end the daemon ({late:.2f} s by load)")
        self.figures.ended.append(took)
        daemon.look_at_log(ended=True)

    def check_sockets(self) -> None:
        """Raise Violation if daemons that ended well have left sockets; none may run."""
        if left := sorted(self._sockets() - self._crashed):
            raise Violation(f"sockets that are left: {', '.join(left)}")

    def _sockets(self) -> set[str]:
        return {path.name for path in self.side.directory.glob("genericdp-*")}

    async def _change_host(self, step: Step) -> None:
        for node in step.nodes:
            if step.do is Do.FLAP:
                well = node in self.record.sick
                self.host.set_health(node, well=well)
                self.record.set_health(node, well=well)
            elif step.do is Do.BLINK:
                await self.host.plug(node)
                await self.host.unplug(node)
                self.record.blink(node, self.now())
            elif step.do is Do.REPLUG:
                await self.host.unplug(node)
                await self.host.plug(node)
                self.record.plug(node, self.now())
            else:
                await self.toggle(node)
        self.figures.nodes[step.do.value] += len(step.nodes)

    async def toggle(self, node: str) -> None:
        """Plug a node that is absent, unplug any other."""
        if node in self.record.plugged:
            await self.host.unplug(node)
            self.record.unplug(node, self.now())
        else:
            await self.host.plug(node)
            self.record.plug(node, self.now())

    def _change_config(self, step: Step) -> None:
        if step.do is Do.RELOAD:
            self.disk.write(step.source, step.specs, step.way)
            self.record.write(step.source, step.specs, self.now())
        elif step.do is Do.BREAK:
            self.disk.break_(step.source, step.way, self.record.on_disk[step.source])
            self.record.breaks(step.source, step.way)
        if step.hangup or step.do is Do.HANGUP:
            self.daemon.hang_up()

    async def _restart_kubelet(self, step: Step, how: Do) -> Mark:
        await self.side.end(how)
        for node in step.nodes:
            await self.toggle(node)
        await asyncio.sleep(step.pause)  # noqa: TID251 -- the pauses of a soak are its steps
        mark = self.load.mark(self.daemon.pid)
        await self.side.start(step.generation)
        return mark

    async def _trouble_kubelet(self, step: Step) -> Mark:
        assert isinstance(self.side, SimulatedSide)
        kubelet = self.side.kubelet
        if step.do is Do.STREAM:
            self.record.broken_streams.add(step.kind)
            kubelet.break_streams(f"soak.example.com/{step.kind}")
            return self.load.mark(self.daemon.pid)
        if step.do is Do.FREEZE:
            kubelet.freeze()
            for node in step.nodes:
                await self.toggle(node)
            await asyncio.sleep(step.pause)  # noqa: TID251 -- the pauses of a soak are its steps
            kubelet.thaw()
            return self.load.mark(self.daemon.pid)
        self.record.broken_streams.clear()
        if step.do is Do.WIPE:
            self._crashed.clear()
            return await self._restart_kubelet(step, Do.WIPE)
        for turn in range(step.times - 1):
            await self.side.end(Do.CRASH if turn % 2 else Do.STOP)
            await asyncio.sleep(step.pause / 10)  # noqa: TID251 -- the pauses of a soak are its steps
            await self.side.start("AB"[turn % 2])
            await asyncio.sleep(step.pause / 4)  # noqa: TID251 -- the pauses of a soak are its steps
        return await self._restart_kubelet(step, Do.CRASH)

    async def _replace_daemon(self, step: Step) -> Mark:
        self.record.forget_gone()
        self.record.broken_streams.clear()
        old = self.daemon
        if step.do is Do.ROLL:
            mark = await self.start_daemon()
            await asyncio.sleep(step.pause)  # noqa: TID251 -- it may be anywhere between its start and its streams
            mark.at = self.now()
            await self.end_daemon(old, signal.SIGTERM)
            return mark
        await self.end_daemon(old, signal.SIGTERM if step.do is Do.TERM else signal.SIGKILL)
        if step.do is Do.TERM:
            self.check_sockets()
        for node in step.nodes:
            await self.toggle(node)
        await asyncio.sleep(step.pause)  # noqa: TID251 -- the pauses of a soak are its steps
        return await self.start_daemon()
