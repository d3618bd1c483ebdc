"""The kinds of probe that are run; the kernel's log is followed instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.devices.checks import CommandRun, FileRead, NodeOpening
from genericdp.health import execprobe, fileprobe, openprobe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from genericdp.devices.checks import BoundProbe
    from genericdp.devices.device import Device
    from genericdp.health.outcome import Outcome
    from genericdp.host.root import Root

_KINDS: dict[type[Any], Callable[..., Awaitable[Outcome]]] = {
    CommandRun: execprobe.probe,
    FileRead: fileprobe.probe,
    NodeOpening: openprobe.probe,
}


async def run_probe(bound: BoundProbe, device: Device, resource: str, root: Root) -> Outcome:
    """Run one probe of one device once; however it ends, that is its outcome."""
    probe = _KINDS[type(bound.check)]
    return await probe(
        bound.check,
        device,
        resource=resource,
        root=root,
        timeout_seconds=bound.probe.timeout_seconds,
    )
