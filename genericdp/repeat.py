"""Retry failures: log the reason once, and wait ever longer between attempts."""

from __future__ import annotations

import logging
import math
import random
from logging import WARNING, Logger

from genericdp.errors import GenericdpError, reason_of

log = logging.getLogger(__name__)

_MAX_DOUBLINGS = 30


class Latch:
    """Logs when a condition begins, when its reason changes, and when it ends."""

    def __init__(self, log: Logger, **about: str) -> None:
        """``about`` is added to each line, such as ``resource`` or ``device``."""
        self.reason = ""
        """Why the condition holds, or an empty string if it does not."""
        self._log, self._about = log, about

    def update(
        self, reason: str, message: str = "", *args: object, ended: str = "", level: int = WARNING
    ) -> bool:
        """Set the reason; return whether it has changed.

        Then log the message, or, without a reason, ``ended``. The message may vary with each
        attempt: only a changed reason is logged again.
        """
        if reason == self.reason:
            return False
        self.reason = reason
        if reason:
            self._log.log(level, message, *args, extra=self._about)
        elif ended:
            self._log.info("%s", ended, extra=self._about)
        return True


def explained(error: Exception, place: object) -> str:
    """Return a human-readable error; ``place`` is added if the error does not name it.

    A bug is logged with its traceback.
    """
    if isinstance(error, GenericdpError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or place}: {reason_of(error).lower()}"
    log.error("unexpected failure", exc_info=error)
    return f"unexpected failure: {error!r}"


def delay_after(attempts: float, first: float, longest: float) -> float:
    """Return the delay before jitter after this many attempts in a row (at least 1)."""
    return min(longest, first * math.pow(2.0, min(attempts - 1, _MAX_DOUBLINGS)))


def jittered(delay: float) -> float:
    """Return a random part of a delay, at least half, so that not all nodes act at the same
    moment.
    """
    return delay * random.uniform(0.5, 1.0)  # noqa: S311


class Backoff:
    """Counts attempts, and forgets one every ``longest`` seconds.

    Only time makes the delays shorter again, not an answer: even a server that always answers gets
    hardly more than one attempt in that time.
    """

    def __init__(self, first: float, longest: float) -> None:
        """``first`` and ``longest`` are the shortest and the longest delay, in seconds."""
        self.attempts = 0.0
        """The number of attempts in a row, without forgotten ones."""
        self._first, self._longest = first, longest
        self._most = 1 + max(0.0, math.log2(longest / first))
        self._counted_at = -math.inf

    def count_attempt(self, now: float, *, at_once: bool = False) -> float:
        """Count an attempt; return the seconds until the next one may begin, with jitter.

        With ``at_once``, there is no delay after a single attempt.
        """
        forgotten = (now - self._counted_at) / self._longest
        self.attempts = min(max(self.attempts - forgotten, 0.0) + 1, self._most)
        self._counted_at = now
        if at_once and self.attempts <= 1:
            return 0.0
        return jittered(delay_after(self.attempts, self._first, self._longest))
