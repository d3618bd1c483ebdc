"""What one run of a probe or hook gave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How it ended."""

    ok: bool
    reason: str = ""
    """Why it failed, for people; empty if it did not."""
    output: str = ""
    """What a command wrote: at most 64 KiB, what cannot be printed is escaped."""
    seconds: float = 0.0
