"""The probe ``exec``: a command that exits with 0 while the device works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from genericdp.health.outcome import Outcome
from genericdp.health.permitted import why_not_permitted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.checks import CommandRun
    from genericdp.devices.device import Device
    from genericdp.process.run import Commands

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RunCommand(Protocol):
    """Runs a command to its end."""

    async def __call__(
        self, argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        """Return the outcome; raise nothing."""


def runner(commands: Commands) -> RunCommand:
    """Return what runs commands for probes and hooks."""

    async def run(
        argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        end = await commands.run(argv, env, timeout_seconds=timeout_seconds)
        return Outcome(ok=end.ok, reason=end.reason, output=end.output, seconds=end.seconds)

    return run


def command_environment(
    resource: str, device: Device, declared: Mapping[str, str]
) -> dict[str, str]:
    """Give all that a command finds in its environment."""
    return {
        "PATH": PATH,
        **declared,
        "GENERICDP_RESOURCE": resource,
        "GENERICDP_DEVICE_ID": device.id,
        "GENERICDP_DEVICE_PATHS": ":".join(node.host_path for node in device.nodes),
    }


async def probe(
    check: CommandRun,
    device: Device,
    *,
    resource: str,
    timeout_seconds: float,
    run: RunCommand,
) -> Outcome:
    """Run the command for one device."""
    program = check.argv[0]
    if why := await why_not_permitted(device.policy, program, timeout_seconds=timeout_seconds):
        return Outcome(ok=False, reason=why)
    environment = command_environment(resource, device, check.env)
    return await run(check.argv, environment, timeout_seconds=timeout_seconds)
