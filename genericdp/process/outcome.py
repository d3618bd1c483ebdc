"""The result of a command, or of another probe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How one run of a command, probe or hook ended."""

    reason: str = ""
    """Why it failed, for people; empty if it did not."""
    output: str = ""
    """What it wrote: the first and last 32 KiB. Unprintable characters are escaped, which can make
    it several times longer.
    """
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return not self.reason
