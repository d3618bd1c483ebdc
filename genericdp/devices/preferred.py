"""Preferred allocation: choose among the available shares (PRF-*)."""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heapreplace
from itertools import combinations
from typing import TYPE_CHECKING

from genericdp.devices.device import device_id_of
from genericdp.devices.inventory import natural_key
from genericdp.devices.topology import distance
from genericdp.model import Preference

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from genericdp.devices.topology import Spot

MAX_STARTS = 16
"""Up to this many free devices, each is tried as the first."""
MAX_COMPARED = 16
"""Number of the container's shares that a further device is compared with."""
_MAX_ID_LENGTH = 255
"""Characters that natural order compares in an ID that no device has."""


def preferred_ids(
    available: Collection[str],
    must: Collection[str],
    size: int,
    devices: Mapping[str, Spot],
    preference: Preference,
    *,
    replicas: int = 1,
) -> list[str]:
    """Return ``size`` of the available IDs, with all of ``must``, in natural order.

    ``devices`` are those of the resource in natural order of their IDs; this order decides
    between equally good ones. The order of the other arguments, which is random (PRF-2), does not
    matter. IDs of no device are chosen last, if there are not enough others. If there are fewer
    than ``size``, all are returned. An empty result means any, if that is the preference, or if
    ``must`` has more IDs than ``size``. Never raises (PRF-4).

    ``auto`` is spread if devices have several shares (``replicas``, since only first shares may be
    left), and closest otherwise.
    """
    required = set(must)
    if preference is Preference.AUTO:
        shares = (share for share in (*available, *must) if "::" in share)
        several = replicas > 1 or any(device_id_of(share) in devices for share in shares)
        preference = Preference.SPREAD if several else Preference.CLOSEST
    if preference is Preference.NONE or size < max(1, len(required)):
        return []
    places = {device: place for place, device in enumerate(devices)}
    rest = [_sort_key(share, places) for share in set(available) - required]
    given = [_sort_key(share, places) for share in required]
    free, held = (Counter(place for place, *_ in some) for some in (rest, given))
    nobody = len(places)
    del free[nobody], held[nobody]
    more, spots = size - len(required), tuple(devices.values())
    if more >= free.total():
        counts = Counter(free)
    elif preference is Preference.CLOSEST and more and not held and len(free) <= MAX_STARTS:
        counts = _choose_closest(free, more, spots)
    else:
        counts = choose_greedily(preference, free, held, more, spots)
    counts[nobody] = more - counts.total()
    for key in sorted(key for key in rest if key[0] in counts):
        if counts[key[0]] > 0:
            counts[key[0]] -= 1
            given.append(key)
    return [share for *_, share in sorted(given)]


def _sort_key(share: str, places: Mapping[str, int]) -> tuple[int, object, str]:
    """Sort by device, then by the number of the share: ID, ID::2, ID::10; IDs of none come last."""
    place = places.get(device_id_of(share))
    if place is None:
        return len(places), natural_key(share[:_MAX_ID_LENGTH]), share
    return place, len(share), share


def choose_greedily(
    preference: Preference,
    free: Counter[int],
    held: Counter[int],
    size: int,
    spots: Sequence[Spot],
) -> Counter[int]:
    """Return how many of the free shares of each device to take: always the one that ranks first.

    Devices are numbers in natural order. There are at least ``size`` free shares.
    """
    left, held = Counter(free), Counter(held)
    order = sorted(held.elements())  # the device of each share, as the container gets them
    sums = dict.fromkeys(free, (0, 0))  # with how many shares compared, and the sum of distances

    def rank(device: int) -> tuple[int, int]:
        if preference is Preference.SPREAD:
            return held[device], -left[device]
        if preference is Preference.PACKED:
            return int(not held[device]), left[device]
        compared, total = sums[device]
        others = order[compared:MAX_COMPARED]
        total += sum(_distance(device, other, spots) for other in others)
        sums[device] = compared + len(others), total
        return total, 0

    heap = [(rank(device), device) for device in free]
    heapify(heap)
    taken: Counter[int] = Counter()
    for _ in range(size):
        # Choosing a share of one device never raises the rank of another, so only the first has to
        # be ranked again.
        while (now := rank(heap[0][1])) > heap[0][0]:
            heapreplace(heap, (now, heap[0][1]))
        _, device = heap[0]
        left[device] -= 1
        held[device] += 1
        taken[device] += 1
        order.append(device)
        if left[device]:
            heapreplace(heap, (rank(device), device))
        else:
            heappop(heap)
    return taken


def _choose_closest(free: Counter[int], size: int, spots: Sequence[Spot]) -> Counter[int]:
    """Return the closest of the greedy choices that begin with each of the devices."""
    # The first device might be the only one on its socket, so try each as the start.
    choices = []
    for device in sorted(free):
        first = Counter({device: 1})
        rest = choose_greedily(Preference.CLOSEST, free - first, first, size - 1, spots)
        choices.append(first + rest)
    return min(choices, key=lambda counts: _sum_of_distances(counts, spots))


def _sum_of_distances(counts: Counter[int], spots: Sequence[Spot]) -> int:
    """Return the sum of the distances between all pairs of shares."""
    return sum(counts[a] * counts[b] * _distance(a, b, spots) for a, b in combinations(counts, 2))


def _distance(first: int, other: int, spots: Sequence[Spot]) -> int:
    """Return the distance between two shares, which is 0 on one device."""
    return 0 if first == other else distance(spots[first], spots[other])
