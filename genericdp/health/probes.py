"""Runs the probes that are run: those of the kernel log are followed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from genericdp.errors import Outcome
from genericdp.health import ThreadCheck
from genericdp.health.execution import run_for
from genericdp.health.kinds.exec import ExecCheck
from genericdp.host.calls import HangsError, give_up, hangs
from genericdp.host.workers import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.device import BoundProbe, Device
    from genericdp.health.execution import RunCommand
    from genericdp.host.root import Root

MAX_HANGING = 16
"""Limit on the hanging threads of a resource, beyond which none of its reads is begun: threads are
limited (``pids.max``), and other resources need theirs."""


class RunProbe(Protocol):
    """Runs a probe of a device once."""

    async def __call__(
        self, bound: BoundProbe, device: Device, *, resource: str, root: Root, before: bytes = b""
    ) -> Outcome:
        """Return the outcome, whatever happened; ``before`` is the digest of an earlier one."""


class Probes:
    """Runs probes; what hangs in a file or node is given up."""

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command
        self._hanging: Counter[str] = Counter()
        """By resource, how many reads were given up and have threads that still run."""

    async def run(
        self, bound: BoundProbe, device: Device, *, resource: str, root: Root, before: bytes = b""
    ) -> Outcome:
        """Run a probe once, as ``RunProbe``."""
        check, seconds = bound.check, bound.probe.timeout_seconds
        if isinstance(check, ExecCheck):
            return await run_for(
                device,
                check.command,
                resource=resource,
                timeout_seconds=seconds,
                run=self._run_command,
            )
        if not isinstance(check, ThreadCheck):
            raise TypeError(check)
        what, look = check.activity(device), partial(check.look, device, root, before)
        return await self.run_in_thread(what, look, resource=resource, timeout_seconds=seconds)

    async def run_in_thread(
        self, what: str, read: Callable[[], Outcome], *, resource: str, timeout_seconds: float
    ) -> Outcome:
        """Run ``read`` in a thread, and return its outcome with the time that it took.

        ``what`` it does, for people; while one of a name hangs, no other is begun.
        """
        if hangs(what):
            return Outcome(reason=f"{what} does not end")
        if self._hanging[resource] >= MAX_HANGING:
            others = f"{MAX_HANGING} others of {resource} do not end"
            return Outcome(reason=f"{what} cannot be begun: {others}")
        began = asked = time.monotonic()

        def work() -> Outcome:
            nonlocal began
            began = time.monotonic()
            with suppress(HangsError):
                return read()
            return Outcome(reason=f"{what} does not end")

        result = start(work, what, is_one_call=True)
        try:
            if await result.ends(timeout_seconds):
                return replace(result.result(), seconds=time.monotonic() - began)
        except asyncio.CancelledError:
            result.cancel()
            raise
        if not result.has_begun:
            result.cancel()
            return Outcome(reason=f"{what} cannot be begun: no thread can be started")
        give_up(result, only_call=True)  # after as little time as the config says
        self._hanging[resource] += 1

        def ended(result: asyncio.Future[Outcome]) -> None:
            self._hanging[resource] -= 1
            result.exception()  # nobody waits for it any longer

        result.add_done_callback(ended)
        return Outcome(reason=f"{what} does not end", seconds=time.monotonic() - asked)
