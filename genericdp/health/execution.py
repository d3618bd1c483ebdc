"""Runs the commands of probes and hooks, if the policy permits, a limited number at once."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from genericdp.errors import Outcome, UnusableDeviceError, reason_of
from genericdp.host.pathwalk import opened
from genericdp.host.workers import in_worker
from genericdp.model import COMMAND_VARIABLES
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Iterable, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.model import Command, Hook, HookName
    from genericdp.policy import Policy
    from genericdp.template import Template

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHOWN_DIGITS = 12
POOL = 32
"""Slots that all owners share, beyond the one that each of them has."""

_CHUNK = 1024 * 1024
_MAX_KNOWN = 256
_TICK_NS = 1_000_000_000
_FileState = tuple[int, ...]
_known: dict[str, tuple[_FileState, str]] = {}
"""The state of a file and its digest, by path."""


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
    paths = ":".join(node.host_path for node in device.nodes)
    ours = zip(COMMAND_VARIABLES, (resource, device.id, paths), strict=True)
    return {"PATH": PATH, **declared, **dict(ours)}


async def run_for(
    device: Device,
    command: Command[str],
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
    """Return why a program must not be run; empty if it may. Raise nothing.

    A process that may write to the file can still replace it between this check and the start: the
    digest protects against a changed file, not against a race with its owner.
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
            digest = await in_worker(partial(sha256, program))
    except TimeoutError:
        return f"is not run: reading {program} takes longer than {timeout_seconds:g} s"
    except OSError as error:
        return f"is not run: {program} cannot be read: {reason_of(error)}"
    if digest == rule.sha256:
        return ""
    return (
        f"is not run: {program} has the SHA-256 {digest[:_SHOWN_DIGITS]}…"
        f" (policy {rule.place} says {rule.sha256[:_SHOWN_DIGITS]}…)"
    )


def sha256(path: str) -> str:
    """Return the SHA-256 digest of a file as 64 lower-case hexadecimal digits.

    It is cached as long as the file's inode, size and times are the same. A write that changes none
    of them is not noticed; only root can do that. Links are followed. Raises OSError; may hang.
    """
    import hashlib  # OpenSSL, four megabytes: fast, and only a policy needs it

    with opened(path) as (descriptor, _):
        state = _state(os.fstat(descriptor))
        known = _known.get(path)
        if known is not None and known[0] == state:
            return known[1]
        digest = hashlib.sha256()
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
        if _state(os.fstat(descriptor)) != state:
            raise OSError("it is being written")
    # A write in the same tick of the kernel's clock would leave the times as they are.
    if time.time_ns() - max(state[-2:]) >= _TICK_NS:  # noqa: TID251  # as the times of files
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[path] = (state, digest.hexdigest())
    return digest.hexdigest()


def _state(status: os.stat_result) -> _FileState:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


@dataclass(slots=True)
class Slots:
    """Slots for jobs: each owner always has its own slot, and all owners share a pool of others.

    A free slot of the pool goes to the waiting owners in turn. The jobs of one owner start in the
    order in which they came.
    """

    pool: int = POOL
    max_per_owner: float = inf
    """How many jobs of one owner may run at once."""
    _waiting: dict[Hashable, deque[asyncio.Event]] = field(default_factory=dict)
    _running: Counter[Hashable] = field(default_factory=Counter)
    """Jobs that hold a slot, by owner; owners without jobs are left out."""

    @asynccontextmanager
    async def slot(self, owner: Hashable) -> AsyncIterator[None]:
        """Wait for a slot, and hold it until the context ends."""
        turn = asyncio.Event()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._start_next()
        try:
            await turn.wait()
            yield
        finally:
            if turn.is_set():  # even if canceled at the moment when its turn has come
                self._running[owner] -= 1
                if not self._running[owner]:
                    del self._running[owner]
                self._start_next()
            else:
                self._waiting[owner].remove(turn)
                if not self._waiting[owner]:
                    del self._waiting[owner]

    def _start_next(self) -> None:
        """Start the first job that may run; after each change, at most one can."""
        has_room = self._running.total() - len(self._running) < self.pool
        for owner in self._waiting:
            running = self._running[owner]
            if not running or (has_room and running < self.max_per_owner):
                turns = self._waiting.pop(owner)
                turns.popleft().set()
                if turns:  # to the end of the queue: other owners come first next time
                    self._waiting[owner] = turns
                self._running[owner] += 1
                return


class HookRunner:
    """Runs the hooks of all resources: in parallel for several devices, but never for one
    device.
    """

    def __init__(self, run: RunCommand, tally: Tally | None = None) -> None:
        self._run = run
        self._tally = tally or Tally()
        self._slots = {"allocate": Slots(), "preStart": Slots(), "release": Slots()}
        """Slots by hook, so that an ``allocate`` hook waits for no other kind of hook or probe."""
        self._turns = Slots(pool=0)
        """Locks for each device and each piece of hardware, whose hooks never overlap.

        Two resources with ``exclusive: false`` may have the same hardware under two names.
        """
        self._running: dict[str, str] = {}
        """The hook whose turn it is, by device and by piece of hardware."""

    async def run(
        self,
        name: HookName,
        resource: str,
        devices: Iterable[Device],
        unfinished: dict[str, str] | None = None,
    ) -> None:
        """Run that hook of each device that has one; raise UnusableDeviceError if any fails.

        If the call is canceled, ``unfinished`` has the hook that had not ended, by device: its own
        hook, or the one that it waited for.
        """
        asked = [
            (device, hook) for device in devices if (hook := device.hooks.get(name)) is not None
        ]
        # All to their end, so that none runs after the answer; canceled with the call.
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
            raise UnusableDeviceError(why, device=only)

    async def _run_one(
        self,
        resource: str,
        name: HookName,
        device: Device,
        hook: Hook[Template],
        unfinished: dict[str, str] | None,
    ) -> Outcome:
        label = f"{name} hook {hook.command.argv[0]}"
        # Each in the same order, so that no two hooks wait for each other.
        places = (f"{hardware.location} {hardware.part}" for hardware in device.identities)
        keys = sorted({f"{resource} {device.id}", *places})
        outcome = Outcome(reason="was given up")
        try:
            async with AsyncExitStack() as turns:
                for key in keys:
                    await turns.enter_async_context(self._turns.slot(key))
                self._running |= dict.fromkeys(keys, label)
                try:
                    async with self._slots[name].slot(resource):
                        outcome = await run_for(
                            device,
                            hook.command.expand(lambda *_: None),
                            resource=resource,
                            timeout_seconds=hook.timeout_seconds,
                            run=self._run,
                        )
                finally:
                    for key in keys:
                        del self._running[key]
        except asyncio.CancelledError:
            if unfinished is not None:
                running = (self._running[key] for key in keys if key in self._running)
                unfinished[device.id] = next(running, label)
            raise
        finally:  # even if the call that it is part of has timed out
            self._tally.of(resource).hooked(name, ok=outcome.ok)
        return outcome
