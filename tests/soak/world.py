"""The world of a chapter, which its steps change: nodes, config, kubelet, daemon."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.soak.daemon import Daemon
from tests.soak.invariants import ENDED_WITHIN_SECONDS, Violation

if TYPE_CHECKING:
    from tests.soak.disk import Disk
    from tests.soak.faults import Step
    from tests.soak.figures import Figures
    from tests.soak.host import Host
    from tests.soak.load import Load, Mark
    from tests.soak.record import Record
    from tests.soak.sides import Ending, Side


@dataclass(kw_only=True, eq=False)
class World:
    """Everything of one chapter that a step can change."""

    directory: Path
    host: Host
    disk: Disk
    side: Side
    record: Record
    load: Load
    figures: Figures
    daemons: list[Daemon] = field(default_factory=list)
    """All that have run; the last one counts."""
    load_seconds: float = 0.0
    """What a new Python that loads the config takes on this machine, measured in this run."""
    crashed: set[str] = field(default_factory=set)
    """Sockets of those that were killed."""

    @property
    def daemon(self) -> Daemon:
        return self.daemons[-1]

    async def start_daemon(self) -> Mark:
        mark = self.load.mark(None)
        arguments = (
            f"--config={self.disk.volume}",
            f"--config={self.disk.plain}",
            f"--kubelet-dir={self.side.directory}",
            f"--state-dir={self.directory / 'state'}",
            f"--root={self.host.root}",
        )
        log = self.directory / f"daemon-{len(self.daemons)}.log"
        self.daemons.append(await Daemon.start(log, arguments))
        return mark

    async def measure_load(self) -> None:
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "genericdp", "validate", self.disk.volume),
            *(self.disk.plain,),
            cwd=Path(__file__).parents[2],
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
            self.crashed |= before
            return
        late = self.load.since(mark, daemon.pid)
        if took > ENDED_WITHIN_SECONDS + late:
            raise Violation(f"SIGTERM took {took:.2f} s to end the daemon ({late:.2f} s by load)")
        self.figures.ended.append(took)
        daemon.look_at_log(ended=True)

    def check_sockets(self) -> None:
        """Raise Violation if daemons that ended well have left sockets; none may run."""
        if left := sorted(self._sockets() - self.crashed):
            raise Violation(f"sockets that are left: {', '.join(left)}")

    def _sockets(self) -> set[str]:
        return {path.name for path in self.side.directory.glob("genericdp-*")}

    async def toggle(self, node: str) -> None:
        if node in self.record.plugged:
            await self.host.unplug(node)
            self.record.unplug(node, time.monotonic())
        else:
            await self.host.plug(node)
            self.record.plug(node, time.monotonic())

    async def pause(self, step: Step) -> None:
        for node in step.nodes:
            await self.toggle(node)
        await asyncio.sleep(step.pause)  # noqa: TID251 -- the pauses of a soak are its steps

    async def restart_kubelet(self, step: Step, how: Ending) -> Mark:
        """End the kubelet and start it after a pause; give when."""
        await self.side.end(how)
        await self.pause(step)
        mark = self.load.mark(self.daemon.pid)
        await self.side.start(step.generation)
        return mark
