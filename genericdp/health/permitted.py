"""Policy check before each run of a command."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from genericdp.host.digests import Digests
from genericdp.host.workers import in_worker
from genericdp.policy import command_bound, command_refusal

if TYPE_CHECKING:
    from genericdp.policy import Policy

_SHOWN_DIGITS = 12
_digests = Digests()


async def why_not_permitted(
    policy: Policy | None, program: str, *, timeout_seconds: float, digests: Digests = _digests
) -> str:
    """Return why a program must not be run; empty: it may. Raise nothing.

    Whoever may write to the file can still exchange it between this and the start: the digest
    guards against what is there, not against a race by a user who owns the program.
    """
    if policy is None:
        return ""
    bound = command_bound(policy, program)
    if bound is None:
        return f"is not run: {command_refusal(policy, program)}"
    if not bound.sha256:
        return ""
    try:
        async with asyncio.timeout(timeout_seconds):
            digest = await in_worker(partial(digests.sha256, program))
    except TimeoutError:
        return f"is not run: reading {program} takes longer than {timeout_seconds:g} s"
    except OSError as error:
        return f"is not run: {program} cannot be read: {error.strerror or error}"
    if digest == bound.sha256:
        return ""
    return (
        f"is not run: {program} has the SHA-256 {digest[:_SHOWN_DIGITS]}…"
        f" (policy {bound.place} says {bound.sha256[:_SHOWN_DIGITS]}…)"
    )
