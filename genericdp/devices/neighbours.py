"""Which of many devices are worth comparing: what a greedy choice takes, neighbours in sysfs."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from genericdp.devices.closeness import distance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.closeness import Spot

MOST_TAKEN = 64
"""Devices in the container already that distances are counted to."""
_MOST_DISTANCES = 5_000
"""For the greedy choice among all devices: some 10 ms."""
_MOST_RUNS = 256


def worth_comparing(
    spots: Sequence[Spot],
    free: Mapping[int, int],
    taken: Mapping[int, int],
    size: int,
    most: int,
) -> list[int]:
    """Give all devices, those first that are most likely to be close together.

    What the plain greedy choice among all of them takes comes first, as far as 5,000 distances
    reach: 4 of 1,000 devices. Then those that are neighbours in sysfs, from a good start on, the
    last before the first; ``most`` of them are going to be compared.
    """
    picks = _plain_greedy(spots, free, taken, size)
    return list(dict.fromkeys((*picks, *_neighbours(spots, free, taken, size, most))))


def _plain_greedy(
    spots: Sequence[Spot], free: Mapping[int, int], taken: Mapping[int, int], size: int
) -> list[int]:
    devices = sorted(free)
    steps = _MOST_DISTANCES // len(devices)
    held = sorted(taken)[:MOST_TAKEN]
    if len(held) >= steps:
        return []
    cost = dict.fromkeys(devices, 0)
    for device in held:
        _add(cost, spots, device, taken[device])
    picks: list[int] = []
    while size > 0 and cost and len(held) + len(picks) < steps:
        device = min(cost, key=cost.__getitem__)
        count = min(free[device], size)
        size -= count
        picks.append(device)
        del cost[device]
        _add(cost, spots, device, count)
    return picks


def _add(cost: dict[int, int], spots: Sequence[Spot], device: int, count: int) -> None:
    """Count the distances to that many shares of a device."""
    for other in cost:
        if other != device:
            cost[other] += count * distance(spots[other], spots[device])


def _neighbours(
    spots: Sequence[Spot],
    free: Mapping[int, int],
    taken: Mapping[int, int],
    size: int,
    most: int,
) -> list[int]:
    """Put the devices in the order of sysfs, in which neighbours share most of their path."""
    line = sorted(sorted(free), key=lambda device: _address(spots[device]))
    if taken:
        beside = _address(spots[min(taken)])
        place = bisect_left(line, beside, key=lambda device: _address(spots[device]))
        start = place - most // 2
    else:
        start = _closest_run([spots[one] for one in line], [free[one] for one in line], size)
    return line[start:] + line[:start]


def _address(spot: Spot) -> tuple[str, tuple[int, ...], str]:
    syspath = spot.syspaths[0] if spot.syspaths else ""
    # Without the last part, natural order decides: it is the device's own name.
    return spot.closeness or "", spot.numa_nodes, syspath.rpartition("/")[0]


def _closest_run(spots: Sequence[Spot], free: Sequence[int], size: int) -> int:
    """Give where a run with enough shares begins whose ends are as near as can be."""
    until = [0, *accumulate(free)]
    last = bisect_left(until, until[-1] - size + 1) - 1
    starts = range(0, last + 1, last // _MOST_RUNS + 1)
    ends = (bisect_left(until, until[start] + size) - 1 for start in starts)
    away = [distance(spots[start], spots[end]) for start, end in zip(starts, ends, strict=True)]
    return starts[away.index(min(away))]
