"""Delays before another attempt: doubled each time up to a limit, with jitter."""

from __future__ import annotations

import random

_MAX_DOUBLINGS = 30


def delay_after(attempts: int, first: float, longest: float) -> float:
    """Return the delay after this many attempts in a row, from 1 on, before jitter."""
    return min(longest, first * 2.0 ** min(attempts - 1, _MAX_DOUBLINGS))


def jittered(delay: float) -> float:
    """Return a random part of a delay, at least half: nodes must not all act at one moment."""
    return delay * random.uniform(0.5, 1.0)  # noqa: S311
