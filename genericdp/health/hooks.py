"""Runs hooks: commands at allocation and before a container starts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from genericdp.errors import UnusableDeviceError
from genericdp.health.commands import run
from genericdp.health.execprobe import command_environment
from genericdp.health.outcome import Outcome
from genericdp.health.permitted import why_not_permitted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from genericdp.devices.checks import BoundHook
    from genericdp.devices.device import Device

MOST_AT_ONCE = 32
"""Slots of their own: no probe ever holds up a pod."""


class RunCommand(Protocol):
    """Runs a command to its end."""

    async def __call__(
        self, argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        """Give how it ended; never raises."""


class HookRunner:
    """Runs the hooks of all resources: those of several devices at once, of one never."""

    def __init__(
        self,
        *,
        told: Callable[[str, str, Outcome], None] = lambda *_: None,
        run: RunCommand = run,
    ) -> None:
        self._told = told
        """Called with resource, hook (``allocate``, ``preStart``) and outcome."""
        self._run = run
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._turns: dict[tuple[str, str], tuple[asyncio.Lock, int]] = {}
        """By resource and id: who runs for a device, and how many run or wait."""

    async def allocate(self, resource: str, devices: Iterable[Device]) -> None:
        """Run the ``allocate`` hook of each device; raises UnusableDeviceError if one fails."""
        await self._run_all(resource, "allocate", [(d, d.hooks.allocate) for d in devices])

    async def pre_start(self, resource: str, devices: Iterable[Device]) -> None:
        """Run the ``preStart`` hook of each device; raises UnusableDeviceError if one fails."""
        await self._run_all(resource, "preStart", [(d, d.hooks.pre_start) for d in devices])

    async def _run_all(
        self, resource: str, name: str, hooks: Sequence[tuple[Device, BoundHook | None]]
    ) -> None:
        asked = [(device, hook) for device, hook in hooks if hook is not None]
        if not asked:
            return
        # All to their end, so that none goes on after the answer; cancelled with the call.
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._run_one(resource, name, device, hook), name=f"{name} hook")
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

    async def _run_one(self, resource: str, name: str, device: Device, hook: BoundHook) -> Outcome:
        outcome = Outcome(ok=False, reason="was given up")
        try:
            async with self._turn(resource, device.id), self._slots:
                outcome = await self._permitted(device, hook) or await self._run(
                    hook.command.argv,
                    command_environment(resource, device, hook.command.env),
                    timeout_seconds=hook.timeout_seconds,
                )
        finally:  # also where the call that it is part of has taken too long
            self._told(resource, name, outcome)
        return outcome

    async def _permitted(self, device: Device, hook: BoundHook) -> Outcome | None:
        """Give what comes of a hook that must not be run; None: it may."""
        program, seconds = hook.command.argv[0], hook.timeout_seconds
        why = await why_not_permitted(device.policy, program, timeout_seconds=seconds)
        return Outcome(ok=False, reason=why) if why else None

    @asynccontextmanager
    async def _turn(self, resource: str, device_id: str) -> AsyncIterator[None]:
        key = (resource, device_id)
        lock, count = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = (lock, count + 1)
        try:
            async with lock:
                yield
        finally:
            lock, count = self._turns.pop(key)
            if count > 1:
                self._turns[key] = (lock, count - 1)
