"""The probe ``exec``: a command that exits with 0 while the device works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.health.commands import command_environment, run

if TYPE_CHECKING:
    from genericdp.devices.checks import CommandRun
    from genericdp.devices.device import Device
    from genericdp.health.outcome import Outcome
    from genericdp.host.root import Root


async def probe(
    check: CommandRun,
    device: Device,
    *,
    resource: str,
    root: Root,  # noqa: ARG001  # as every probe has it; a command runs on this machine
    timeout_seconds: float,
) -> Outcome:
    """Run the command for one device."""
    environment = command_environment(resource, device, check.env)
    return await run(check.argv, environment, timeout_seconds=timeout_seconds)
