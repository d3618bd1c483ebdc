"""Probes and hooks of a resource for one device: their templates expanded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.checks import (
    NO_HOOKS,
    BoundHook,
    BoundHooks,
    BoundProbe,
    CommandRun,
    FileRead,
    LogWatch,
    NodeOpening,
)
from genericdp.devices.requesting import absolute_path
from genericdp.model import Command, FileCheck, KernelLogCheck, OpenCheck
from genericdp.template import expand

if TYPE_CHECKING:
    from genericdp.devices.checks import Check
    from genericdp.model import Hook, Probe, Resource
    from genericdp.policy import Policy
    from genericdp.template import Lookup


def bound_probes(resource: Resource, lookup: Lookup) -> tuple[BoundProbe, ...]:
    """Give the probes for one device; raises UnusableValueError for a text that it lacks."""
    return tuple(
        BoundProbe(probe=probe, check=_check(probe, lookup, resource.policy))
        for probe in resource.health
    )


def bound_hooks(resource: Resource, lookup: Lookup) -> BoundHooks:
    """Give the hooks for one device; raises UnusableValueError for a text that it lacks."""
    hooks = resource.hooks
    if hooks.allocate is None and hooks.pre_start is None:
        return NO_HOOKS
    return BoundHooks(
        allocate=_hook(hooks.allocate, lookup), pre_start=_hook(hooks.pre_start, lookup)
    )


def _hook(hook: Hook | None, lookup: Lookup) -> BoundHook | None:
    if hook is None:
        return None
    return BoundHook(command=_command(hook.command, lookup), timeout_seconds=hook.timeout_seconds)


def _check(probe: Probe, lookup: Lookup, policy: Policy | None) -> Check:
    match probe.check:
        case Command():
            return _command(probe.check, lookup)
        case FileCheck():
            equals = probe.check.equals
            return FileRead(
                path=absolute_path(probe.check.path, lookup),
                regex=probe.check.regex,
                equals=None if equals is None else expand(equals, lookup),
                min=probe.check.min,
                max=probe.check.max,
                policy=policy,
            )
        case OpenCheck():
            return NodeOpening(mode=probe.check.mode)
        case KernelLogCheck():
            where = {group: expand(text, lookup) for group, text in probe.check.where.items()}
            return LogWatch(regex=probe.check.regex, where=where, ignore=probe.check.ignore)


def _command(command: Command, lookup: Lookup) -> CommandRun:
    return CommandRun(
        argv=tuple(expand(argument, lookup) for argument in command.argv),
        env={name: expand(text, lookup) for name, text in command.env.items()},
    )
