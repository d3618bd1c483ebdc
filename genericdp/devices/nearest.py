"""Which devices to take so that they sit close together: the smallest sum of distances."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import comb
from typing import TYPE_CHECKING

from genericdp.devices.closeness import distance
from genericdp.devices.neighbours import MOST_TAKEN, worth_comparing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.closeness import Spot

Counts = dict[int, int]
"""How many shares of each device; a device is its place in natural order."""

MOST_COMBINATIONS = 20_000
"""Up to so many ways to choose, the best one is searched for: half of 16 devices."""
MOST_STEPS = 1_500_000
"""Where more than half is taken: ways to choose times the square of the shares, some 15 ms."""
MOST_COMPARED = 128
"""Of more devices than these, only so many are compared with each other."""
_MOST_WORK = 100_000
"""Distances that greedy starts may add up: some 15 ms."""


def nearest(
    spots: Sequence[Spot], free: Mapping[int, int], taken: Mapping[int, int], size: int
) -> Counts:
    """Give how many of the free shares to take of each device: ``size`` in all.

    The sum of the distances of all pairs, with what is taken already, is the smallest for up to
    ``MOST_COMBINATIONS`` ways to choose (``MOST_STEPS`` where most are taken), and then ties go
    to the first devices. Above that it is the best of greedy choices from every start (as many as
    time allows), improved by one round of swaps, so never worse than the plain greedy choice
    (always the nearest to all that is taken). Of more than ``MOST_COMPARED`` devices, those that
    are worth it are compared.

    There must be at least ``size`` free shares, and ``size`` at least 1.
    """
    devices = sorted(free)
    if len(devices) > MOST_COMPARED:
        line = worth_comparing(spots, free, taken, size, MOST_COMPARED)
        devices = sorted(line[:MOST_COMPARED])
        if sum(free[device] for device in devices) < size:
            return _first(line, free, size)
    choice = _choice(devices, spots, free, taken, size)
    best = _improved(choice, _best_greedy(choice))
    shares = sum(choice.free)
    if shares <= MOST_COMPARED and _can_be_searched(shares, size):
        best = _Search(choice, _sum(choice, best)).run()
    return {devices[i]: count for i, count in enumerate(best) if count}


def _can_be_searched(shares: int, size: int) -> bool:
    """Say whether all ways to choose can be gone through in time."""
    ways = comb(shares, size)
    # Where most are taken there are few ways, but each is long.
    few = 2 * size <= shares or ways * shares**2 <= MOST_STEPS
    return few and ways <= MOST_COMBINATIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Choice:
    """Devices by index, in natural order."""

    free: tuple[int, ...]
    """How many shares each has, at most as many as are to be taken."""
    distances: tuple[tuple[int, ...], ...]
    to_taken: tuple[int, ...]
    """The sum of distances from each to what is taken already."""
    size: int


def _choice(
    devices: Sequence[int],
    spots: Sequence[Spot],
    free: Mapping[int, int],
    taken: Mapping[int, int],
    size: int,
) -> _Choice:
    held = sorted(taken)[:MOST_TAKEN]
    full = [device for device in held if device not in free]
    places = {device: i for i, device in enumerate((*devices, *full))}
    rows = _distances([spots[device] for device in places])[: len(devices)]
    counts = [(places[device], taken[device]) for device in held if device in places]
    return _Choice(
        free=tuple(min(free[device], size) for device in devices),
        distances=tuple(tuple(row[: len(devices)]) for row in rows),
        to_taken=tuple(sum(row[i] * count for i, count in counts) for row in rows),
        size=size,
    )


def _distances(spots: Sequence[Spot]) -> list[list[int]]:
    """Give all distances; many devices may sit at one place, and each is looked at once."""
    seats: dict[object, int] = {}
    seat = [
        seats.setdefault((one.lineages, one.numa_nodes, one.closeness), len(seats)) for one in spots
    ]
    own = [spots[seat.index(number)] for number in range(len(seats))]
    between = [[int(distance(one, other)) for other in own[: i + 1]] for i, one in enumerate(own)]
    rows = [[between[max(mine, its)][min(mine, its)] for its in seat] for mine in seat]
    for i, row in enumerate(rows):
        row[i] = 0  # shares of one device
    return rows


def _greedy(choice: _Choice, start: int, limit: int | None) -> tuple[int, list[int]] | None:
    """Take from the start, then always the nearest to all taken; None if the sum passes the limit.

    All shares of a device at once: once it is the nearest, it stays so.
    """
    cost: list[float] = [*choice.to_taken]
    counts = [0] * len(cost)
    left, total, device = choice.size, 0.0, start
    while True:
        count = min(choice.free[device], left)
        counts[device] = count
        total += count * cost[device]
        left -= count
        if limit is not None and total >= limit:
            return None
        if not left:
            return int(total), counts
        cost = [
            one + count * more for one, more in zip(cost, choice.distances[device], strict=True)
        ]
        for done, number in enumerate(counts):
            if number:
                cost[done] = float("inf")
        device = min(range(len(cost)), key=cost.__getitem__)


def _best_greedy(choice: _Choice) -> list[int]:
    """Try the plain greedy choice's start first, so that nothing worse is given."""
    starts = sorted(range(len(choice.free)), key=choice.to_taken.__getitem__)
    work, limit, best = 0, None, [0] * len(starts)
    for start in starts:
        found = _greedy(choice, start, limit)
        if found is not None:
            limit, best = found
        work += len(starts) * sum(1 for count in best if count)
        if work > _MOST_WORK:
            break
    return best


def _costs(choice: _Choice, counts: Sequence[int]) -> list[int]:
    """Give the sum of distances from each device to all that is taken with these."""
    cost = [*choice.to_taken]
    for device, count in enumerate(counts):
        if count:
            row = choice.distances[device]
            cost = [one + count * more for one, more in zip(cost, row, strict=True)]
    return cost


def _sum(choice: _Choice, counts: Sequence[int]) -> int:
    costs = _costs(choice, counts)
    pairs = zip(counts, costs, choice.to_taken, strict=True)
    return sum(count * (cost + taken) for count, cost, taken in pairs) // 2


def _improved(choice: _Choice, counts: Sequence[int]) -> list[int]:
    """Exchange, once, a share of each device for one of another if that makes the sum smaller."""
    better = [*counts]
    cost = _costs(choice, better)
    for device in [device for device, count in enumerate(counts) if count]:
        row = choice.distances[device]
        others = [i for i, count in enumerate(better) if count < choice.free[i] and i != device]
        other = min(others, key=lambda i: cost[i] - row[i], default=device)
        if cost[other] - row[other] < cost[device]:
            better[device] -= 1
            better[other] += 1
            new = choice.distances[other]
            cost = [one - old + more for one, old, more in zip(cost, row, new, strict=True)]
    return better


class _Search:
    """Branch and bound over the devices in natural order, the most shares of each first.

    The first choice found with the smallest sum is so the first in natural order.
    """

    def __init__(self, choice: _Choice, limit: int) -> None:
        self._choice = choice
        self._limit = limit
        """A sum that can be had."""
        self._best: list[int] | None = None
        self._near = [self._sums(device) for device in range(len(choice.free))]

    def run(self) -> list[int]:
        """Give how many of each device to take."""
        self._visit(0, self._choice.size, 0, self._choice.to_taken, [])
        assert self._best is not None  # noqa: S101  # the limit can be had
        return self._best

    def _sums(self, device: int) -> list[int]:
        """Give the sum of the n smallest distances from a share to others, for each n."""
        shares = [0] * (self._choice.free[device] - 1)
        for other, away in enumerate(self._choice.distances[device]):
            if other != device:
                shares += [away] * self._choice.free[other]
        return [0, *accumulate(sorted(shares))]

    def _visit(
        self, device: int, left: int, total: int, cost: Sequence[int], counts: list[int]
    ) -> None:
        if not left:
            if total < self._limit or self._best is None:
                self._limit, self._best = total, counts + [0] * (len(cost) - len(counts))
            return
        if self._is_hopeless(device, left, total, cost):
            return
        row = self._choice.distances[device]
        for count in range(min(self._choice.free[device], left), -1, -1):
            then = cost
            if count:
                then = [one + count * more for one, more in zip(cost, row, strict=True)]
            now = total + count * cost[device]
            self._visit(device + 1, left - count, now, then, [*counts, count])

    def _is_hopeless(self, device: int, left: int, total: int, cost: Sequence[int]) -> bool:
        """Say whether even the nearest of the rest, each as near as can be, are too far."""
        rest: list[int] = []
        for i in range(device, len(cost)):
            # Twice the sum: a pair among the rest counts half for each of the two.
            rest += [2 * cost[i] + self._near[i][left - 1]] * min(self._choice.free[i], left)
        if len(rest) < left:
            return True
        least = 2 * total + sum(sorted(rest)[:left])
        return least > 2 * self._limit - (self._best is not None)


def _first(devices: Sequence[int], free: Mapping[int, int], size: int) -> Counts:
    counts: Counts = {}
    for device in devices:
        if size <= 0:
            break
        counts[device] = min(free[device], size)
        size -= counts[device]
    return counts
