"""Runs commands for a device, as probes or hooks: only what its policy permits."""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from genericdp.host.workers import in_worker
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.device import CommandRun, Device
    from genericdp.host.digests import Digests
    from genericdp.policy import Policy

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHOWN_DIGITS = 12


@cache
def _digests() -> Digests:
    from genericdp.host.digests import Digests  # few policies pin a program

    return Digests()


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


async def run_for(
    device: Device,
    command: CommandRun,
    *,
    resource: str,
    timeout_seconds: float,
    run: RunCommand,
) -> Outcome:
    """Run a command for a device if its policy permits it; raise nothing."""
    program = command.argv[0]
    if why := await why_not_permitted(device.policy, program, timeout_seconds=timeout_seconds):
        return Outcome(reason=why)
    environment = command_environment(resource, device, command.env)
    return await run(command.argv, environment, timeout_seconds=timeout_seconds)


async def why_not_permitted(policy: Policy | None, program: str, *, timeout_seconds: float) -> str:
    """Return why a program must not be run; empty: it may. Raise nothing.

    Whoever may write to the file can still exchange it between this and the start: the digest
    guards against what is there, not against a race by a user who owns the program.
    """
    if policy is None:
        return ""
    rule = policy.command_rule(program)
    if rule is None:
        allowed = policy.commands.says
        return f"is not run: {program} is not among the commands that are allowed ({allowed})"
    if not rule.sha256:
        return ""
    try:
        async with asyncio.timeout(timeout_seconds):
            digest = await in_worker(partial(_digests().sha256, program))
    except TimeoutError:
        return f"is not run: reading {program} takes longer than {timeout_seconds:g} s"
    except OSError as error:
        return f"is not run: {program} cannot be read: {error.strerror or error}"
    if digest == rule.sha256:
        return ""
    return (
        f"is not run: {program} has the SHA-256 {digest[:_SHOWN_DIGITS]}…"
        f" (policy {rule.place} says {rule.sha256[:_SHOWN_DIGITS]}…)"
    )
