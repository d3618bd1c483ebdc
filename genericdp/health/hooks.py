"""Runs hooks: commands at allocation and before a container starts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genericdp.errors import UnusableDeviceError
from genericdp.health.commands import run_for
from genericdp.health.slots import Slots
from genericdp.process.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from genericdp.devices.device import BoundHook, Device, HookName
    from genericdp.health.commands import RunCommand


class HookRunner:
    """Runs the hooks of all resources: those of several devices at once, of one never."""

    def __init__(
        self, run: RunCommand, *, told: Callable[[str, str, Outcome], None] = lambda *_: None
    ) -> None:
        self._told = told
        """Called with resource, name of the hook and outcome."""
        self._run = run
        self._slots = {"allocate": Slots(), "preStart": Slots()}
        """By hook, so that an ``allocate`` hook waits for no ``preStart`` hook or probe."""
        self._turns = Slots(pool=0)
        """One for each device, by resource and id: its hooks never overlap."""
        self._running: dict[tuple[str, str], str] = {}
        """The hook whose turn it is, by resource and id."""

    async def run(
        self,
        name: HookName,
        resource: str,
        devices: Iterable[Device],
        unfinished: dict[str, str] | None = None,
    ) -> None:
        """Run that hook of each device that has one; raise UnusableDeviceError if any fails.

        If the call is canceled, ``unfinished`` tells, by device, the hook that had not ended: its
        own, or the one that it waited for.
        """
        asked = [(device, hook) for device in devices if (hook := _hook(device, name)) is not None]
        # All to their end, so that none goes on after the answer; canceled with the call.
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(
                    self._run_one(resource, name, device, hook, unfinished), name=f"{name} hook"
                )
                for device, hook in asked
            ]
        failures = {
            device.id: f"its {name} hook {hook.command.argv[0]} {outcome.reason}"
            for (device, hook), task in zip(asked, running, strict=True)
            if not (outcome := task.result()).ok
        }
        if failures:
            why = "; ".join(f"device {name}: {reason}" for name, reason in failures.items())
            only = next(iter(failures)) if len(failures) == 1 else ""
            raise UnusableDeviceError(f"{resource}: {why}", device=only)

    async def _run_one(
        self,
        resource: str,
        name: HookName,
        device: Device,
        hook: BoundHook,
        unfinished: dict[str, str] | None,
    ) -> Outcome:
        key, label = (resource, device.id), f"{name} hook {hook.command.argv[0]}"
        outcome = Outcome(reason="was given up")
        try:
            async with self._turns.slot(key):
                self._running[key] = label
                try:
                    async with self._slots[name].slot(resource):
                        outcome = await run_for(
                            device,
                            hook.command,
                            resource=resource,
                            timeout_seconds=hook.timeout_seconds,
                            run=self._run,
                        )
                finally:
                    del self._running[key]
        except asyncio.CancelledError:
            if unfinished is not None:
                unfinished[device.id] = self._running.get(key, label)
            raise
        finally:  # also where the call that it is part of has taken too long
            self._told(resource, name, outcome)
        return outcome


def _hook(device: Device, name: HookName) -> BoundHook | None:
    return device.hooks.allocate if name == "allocate" else device.hooks.pre_start
