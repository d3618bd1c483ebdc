"""Waits for what other processes do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_LOOK_EVERY_SECONDS = 0.05
PATIENCE_SECONDS = 180.0
"""For all: a machine that is busy with other work passes, and only a failure takes this long."""


def eventually(
    look: Callable[[], T],
    wanted: Callable[[T], bool] = bool,
    *,
    what: str,
) -> T:
    """Look again and again until it is as wanted; give what was seen, or fail with the last.

    A method such as ``frozenset().__eq__`` answers NotImplemented for what is of another kind.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := wanted(seen := look())) is NotImplemented or not answer:
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {PATIENCE_SECONDS:g} s; last seen: {seen!r}")
        time.sleep(_LOOK_EVERY_SECONDS)  # noqa: TID251 -- polls what has no event
    return seen
