"""What of the host cannot be read: logged once, and when to look at it again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

log = logging.getLogger(__name__)


AGAIN_SECONDS = 2.0
"""After this time what could not be read is looked at again,"""
LONGEST_AGAIN_SECONDS = 30.0
"""and after twice the time whenever that was in vain, but for no longer than this."""


class Unreadable:
    """Remembers what was logged, and since when looking again has been in vain."""

    def __init__(self) -> None:
        self._pause = AGAIN_SECONDS
        self._due = 0.0
        self._blind = False
        self._troubles: set[str] = set()
        """What could not be read in the last pass, and why."""

    def tell_blind(self, error: BaseException) -> None:
        """Tell that nothing can be concluded from the host just now."""
        if not self._blind:
            log.warning("the host cannot be looked at (%s): what is known of it stays", error)
        self._blind = True

    def tell(self, troubles: set[str], *, now: float) -> float | None:
        """Log what a pass could not read and the one before could, and the other way round.

        Return when to look again at what cannot be read; None if everything can.
        """
        if self._blind:
            self._blind = False
            log.info("the host can be looked at again")
        troubles = {one for one in troubles if not _is_below(one, troubles)}
        for trouble in sorted(troubles - self._troubles):
            log.warning("%s: what is known of it stays", trouble)
        for trouble in sorted(self._troubles - troubles):
            log.info("%s can be read again", trouble.partition(" cannot be read")[0])
        if troubles - self._troubles:
            self._pause, self._due = AGAIN_SECONDS, now + AGAIN_SECONDS
        elif now >= self._due:
            self._pause = min(2 * self._pause, LONGEST_AGAIN_SECONDS)
            self._due = now + self._pause
        self._troubles = troubles
        return self._due if troubles else None


def _is_below(trouble: str, others: Collection[str]) -> bool:
    """Say whether the folder of a path that cannot be read is another such path."""
    folder = trouble.partition(" cannot be read")[0].rpartition("/")[0]
    return any(one.startswith(f"{folder} cannot be read") for one in others)
