"""The kinds of probe that are run; the kernel's log is followed instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from genericdp.devices.checks import CommandRun, FileRead, NodeOpening
from genericdp.health import execprobe, fileprobe, openprobe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from genericdp.devices.checks import BoundProbe
    from genericdp.devices.device import Device
    from genericdp.health.outcome import Outcome
    from genericdp.host.root import Root

    Run = tuple[BoundProbe, Device]


class RunProbes(Protocol):
    """Runs probes of one resource once: one of any kind, or several with files and one timeout."""

    async def __call__(self, runs: Sequence[Run], resource: str, root: Root) -> Sequence[Outcome]:
        """Give how each ended; that is its outcome, whatever happened."""


_KINDS: dict[type[Any], Callable[..., Awaitable[Outcome]]] = {
    CommandRun: execprobe.probe,
    FileRead: fileprobe.probe,
    NodeOpening: openprobe.probe,
}


async def run_probes(runs: Sequence[Run], resource: str, root: Root) -> Sequence[Outcome]:
    """Run probes as ``RunProbes`` says."""
    bound, device = runs[0]
    timeout_seconds = bound.probe.timeout_seconds
    files = [one.check for one, _ in runs if isinstance(one.check, FileRead)]
    if files:
        return await fileprobe.probe_many(
            files, resource=resource, root=root, timeout_seconds=timeout_seconds
        )
    probe = _KINDS[type(bound.check)]
    return [
        await probe(
            bound.check, device, resource=resource, root=root, timeout_seconds=timeout_seconds
        )
    ]
