"""When probes run: spread over their period."""

from __future__ import annotations

import hashlib
import math


def share_of_period(*names: str) -> float:
    """Give where in its period a probe runs, from 0 to 1: the same after each restart."""
    digest = hashlib.sha256("\0".join(names).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def second_run(first: float, period: float, share: float) -> float:
    """Give when a probe runs again that ran first with all the others at once."""
    return first + period * (0.5 + share)


def next_run(due: float, now: float, period: float) -> float:
    """Give when it runs again: what was missed is not made up for."""
    return max(due + period, now)


def in_step(due: float, period: float) -> float:
    """Put off a look at a file, so that those of many devices come in batches.

    40 of them in a period: that is still spread, and handing one look to a thread costs more
    than the look.
    """
    step = period / 40
    return math.ceil(due / step) * step
