"""Devices under probes, for tests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from genericdp.devices.device import BoundProbe, Device
from genericdp.devices.inventory import Identity
from genericdp.health.execution import HookRunner
from genericdp.health.health import Health
from genericdp.health.kernellog import names_match, names_of, rule_of
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.file import FileCheck
from genericdp.model import Command, Probe
from genericdp.process.run import Commands
from genericdp.reasons import Code, text_of
from genericdp.template import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from genericdp.gate import RunHooks
    from genericdp.health.kinds.kernellog import KernelLogCheck
    from genericdp.host.root import Root
    from genericdp.model import Check

R = "example.com/r"
PATIENCE_SECONDS = 60.0
"""The machine may be busy with something else."""


class Watched:
    """The health of devices, and what it shows."""

    def __init__(self, root: Root, **settings: Any) -> None:
        self.health = Health(root, changed=self._wake, **settings)
        self.wakes = 0
        self._woken = asyncio.Event()

    def _wake(self, *_: object) -> None:
        self.wakes += 1
        self._woken.set()

    def watch(self, *devices: Device, resource: str = R, delayed: bool = True) -> None:
        """Watch exactly these devices."""
        self.health.watch(resource, {device.id: device for device in devices}, delayed=delayed)

    @property
    def reasons(self) -> dict[str, str]:
        """The devices that are not healthy, and why."""
        return self.reasons_of(R)

    def reasons_of(self, resource: str) -> dict[str, str]:
        """Return the same for any resource."""
        reports = self.health.reports().get(resource, {})
        return {name: text_of(reasons) for (name, _), reasons in reports.items() if reasons}

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something holds, asked after each change that is reported."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached():
                self._woken.clear()
                await self._woken.wait()

    async def probed(self, resource: str = R) -> None:
        """Wait for the first results of all devices."""

        def is_probed() -> bool:
            reports = self.health.reports().get(resource, {}).values()
            return all(
                reason.code is not Code.NOT_PROBED for reasons in reports for reason in reasons
            )

        await self.until(is_probed)


@asynccontextmanager
async def watching(root: Root, **settings: Any) -> AsyncIterator[Watched]:
    """Run probes and follow the log for as long as the context lasts."""
    watched = Watched(root, **settings)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watched.health.run())
        try:
            yield watched
        finally:
            running.cancel()


def probe(**settings: object) -> Probe:
    """A probe as the config has it; times in seconds may be fractions."""
    return Probe(check=FileCheck(path=parse("/x"), equals=parse("1")), **settings)  # type: ignore[arg-type]


def no_hooks() -> RunHooks:
    """Give what runs hooks, for devices that have none."""
    return HookRunner(Commands().run).run


def struck(watch: KernelLogCheck[str], line: str) -> bool:
    """Check whether a line of the kernel log makes the device Unhealthy."""
    names = rule_of(watch).names_in(line)
    return names is not None and names_match(names, names_of(watch))


def device(name: str, *probes: Probe, inode: int = 1, file: bool = False) -> Device:
    """A device with probes; each runs a program of its own, or reads a file of its own."""

    def check(path: str) -> Check:
        reads: FileCheck[str, float] = FileCheck(path=path, equals="1")
        return reads if file else ExecCheck(command=Command(argv=(path,)))

    bound = tuple(
        BoundProbe(probe=entry, check=check(f"/{name}/{i}")) for i, entry in enumerate(probes)
    )
    path = f"/dev/{name}"
    return Device(id=name, key=path, path=path, identity=Identity(inode=inode), probes=bound)
