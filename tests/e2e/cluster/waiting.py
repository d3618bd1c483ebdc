"""Waits for what other processes do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_LOOK_EVERY_SECONDS = 0.05


def eventually(
    look: Callable[[], T],
    wanted: Callable[[T], bool] = bool,
    *,
    seconds: float = 30,
    what: str,
) -> T:
    """Look again and again until it is as wanted; give what was seen, or fail with the last.

    A method such as ``frozenset().__eq__`` answers NotImplemented for what is of another kind.
    """
    deadline = time.monotonic() + seconds
    while (answer := wanted(seen := look())) is NotImplemented or not answer:
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s; last seen: {seen!r}")
        time.sleep(_LOOK_EVERY_SECONDS)
    return seen
