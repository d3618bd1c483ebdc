"""The probe ``exec``: a command that exits with 0 while the device works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from genericdp.health.permitted import why_not_permitted
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.checks import CommandRun
    from genericdp.devices.device import Device

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RunCommand(Protocol):
    """Runs a command to its end."""

    async def __call__(
        self, argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        """Return the outcome; raise nothing."""


def command_environment(
    resource: str, device: Device, declared: Mapping[str, str]
) -> dict[str, str]:
    """Return the whole environment of a command."""
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
        return Outcome(reason=why)
    environment = command_environment(resource, device, check.env)
    return await run(check.argv, environment, timeout_seconds=timeout_seconds)
