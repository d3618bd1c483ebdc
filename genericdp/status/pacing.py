"""How fast newcomers are taken, and who of those that are slow has to go: decided, not done."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable


_PART = 4
"""Of a burst, one part comes at a time."""


class ResponsePace:
    """A token bucket: ``burst`` at once, and then so many per second, a few at a time.

    To wake up for each of them would cost as much as what it is for.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._seconds = 1 / per_second
        self._ahead = burst * self._seconds
        self._together = burst // _PART * self._seconds
        self._due = -inf
        """When the last one that was taken would have been, had all come evenly."""

    def take(self, now: float) -> float:
        """Take one at ``now``, in seconds; gives how long to wait before the next one."""
        self._due = max(self._due, now - self._ahead) + self._seconds
        return self._due - now + self._together if self._due > now else 0.0


class Taker(Protocol):
    """Somebody who is being sent something."""

    body: bytes
    since: float


T = TypeVar("T", bound=Taker)


def too_slow(takers: Iterable[T], newest: bytes, most_bytes: int) -> list[T]:
    """Return those who must go, so that all bodies but the newest hold ``most_bytes`` at most.

    A body that several of them take is one. Who has been at it longest goes first.
    """
    others = sorted(
        (one for one in takers if one.body and one.body is not newest), key=lambda one: -one.since
    )
    kept: dict[int, int] = {}
    for at, one in enumerate(others):
        kept[id(one.body)] = len(one.body)
        if sum(kept.values()) > most_bytes:
            return others[at:]
    return []
