"""The kinds of probe that are run; the kernel's log is followed instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from genericdp.devices.device import CommandRun, FileRead, NodeOpening
from genericdp.health import fileprobe, openprobe
from genericdp.health.commands import run_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.devices.device import BoundProbe, Device
    from genericdp.health.commands import RunCommand
    from genericdp.host.root import Root
    from genericdp.process.outcome import Outcome

    Run = tuple[BoundProbe, Device]


class RunProbes(Protocol):
    """Runs probes of one resource once: one of any kind, or several with files and one timeout."""

    async def __call__(self, runs: Sequence[Run], resource: str, root: Root) -> Sequence[Outcome]:
        """Return an outcome for each, whatever happened."""


async def run_probes(
    runs: Sequence[Run], resource: str, root: Root, *, run: RunCommand
) -> Sequence[Outcome]:
    """Run probes as ``RunProbes`` says, commands through ``run``."""
    bound, device = runs[0]
    check, timeout_seconds = bound.check, bound.probe.timeout_seconds
    if isinstance(check, CommandRun):
        ran = run_for(device, check, resource=resource, timeout_seconds=timeout_seconds, run=run)
        return [await ran]
    if isinstance(check, NodeOpening):
        opened = openprobe.probe(
            check, device, resource=resource, root=root, timeout_seconds=timeout_seconds
        )
        return [await opened]
    files = [one.check for one, _ in runs if isinstance(one.check, FileRead)]
    return await fileprobe.probe_many(
        files, resource=resource, root=root, timeout_seconds=timeout_seconds
    )
