"""Which of the free ids a container should rather get (PRF-*)."""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from genericdp.devices.nearest import nearest
from genericdp.model import Preference
from genericdp.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from genericdp.devices.closeness import Spot
    from genericdp.devices.nearest import Counts

_LONGEST_ID = 255
"""Characters that natural order looks at in an id that nobody knows."""


def preferred_ids(
    available: Collection[str],
    must: Collection[str],
    size: int,
    devices: Mapping[str, Spot],
    preference: Preference,
    *,
    replicas: int = 1,
) -> list[str]:
    """Give ``size`` of the available ids, with all that must be among them, in natural order.

    ``devices`` are those of the resource in natural order of their ids, as an offer has them;
    this order decides between equally good ones. The order of the other arguments, which is
    random (PRF-2), changes nothing. Ids of no device are given last, where others do not
    suffice. If there are fewer than ``size``: all of them. Empty, which is no preference, if
    that is what is wanted, or if more ids must be given than ``size``. Never raises (PRF-4).

    ``auto`` is spread if devices have several shares, which ``replicas`` tells where only the
    first ones are left, and closest otherwise.
    """
    required = set(must)
    wanted = preference
    if preference is Preference.AUTO:
        several = replicas > 1 or _has_second_share((*available, *must), devices)
        wanted = Preference.SPREAD if several else Preference.CLOSEST
    if wanted is Preference.NONE or size < max(1, len(required)):
        return []
    order = {device: place for place, device in enumerate(devices)}
    given, strange = _by_device(required, order)
    free, strangers = _by_device(set(available) - required, order)
    counts = _counts(
        wanted,
        {device: len(shares) for device, shares in free.items()},
        {device: len(shares) for device, shares in given.items()},
        size - len(required),
        tuple(devices.values()),
    )
    for device, count in counts.items():
        given.setdefault(device, []).extend(_in_order(free[device])[:count])
    lacking = size - len(required) - sum(counts.values())
    return [
        *(share for device in sorted(given) for share in _in_order(given[device])),
        *sorted(strange, key=_natural),
        *sorted(strangers, key=_natural)[:lacking],
    ]


def _has_second_share(ids: Iterable[str], devices: Mapping[str, Spot]) -> bool:
    return any("::" in share and share.partition("::")[0] in devices for share in ids)


def _by_device(
    ids: Iterable[str], order: Mapping[str, int]
) -> tuple[dict[int, list[str]], list[str]]:
    """Give the shares of each device, and the ids that belong to none."""
    known: dict[int, list[str]] = {}
    unknown: list[str] = []
    for share in ids:
        device = order.get(share.partition("::")[0])
        (unknown if device is None else known.setdefault(device, [])).append(share)
    return known, unknown


def _in_order(shares: Iterable[str]) -> list[str]:
    """Sort the shares of one device by number: ID, ID::2, ID::10."""
    return sorted(sorted(shares), key=len)


def _natural(text: str) -> tuple[object, str]:
    return natural_key(text[:_LONGEST_ID]), text


def _counts(
    wanted: Preference,
    free: Mapping[int, int],
    taken: Mapping[int, int],
    size: int,
    spots: tuple[Spot, ...],
) -> Counts:
    """Give how many shares to take of each device: all, where there are fewer than asked for."""
    if size < 1:
        return {}
    if size >= sum(free.values()):
        return dict(free)
    if wanted is Preference.CLOSEST:
        return nearest(spots, free, taken, size)
    return (_packed if wanted is Preference.PACKED else _spread)(free, taken, size)


def _spread(free: Mapping[int, int], taken: Mapping[int, int], size: int) -> Counts:
    """Take from the device of which this container has the fewest shares.

    Then from that of which the others have the fewest: the next pod gets another device.
    """
    counts: Counts = Counter()
    heap = [(taken.get(device, 0), -number, device) for device, number in free.items()]
    heapify(heap)
    for _ in range(size):
        held, left, device = heap[0]
        counts[device] += 1
        if left == -1:
            heappop(heap)
        else:
            heapreplace(heap, (held + 1, left + 1, device))
    return counts


def _packed(free: Mapping[int, int], taken: Mapping[int, int], size: int) -> Counts:
    """Fill the devices that this container has shares of, then those with the fewest left."""
    counts: Counts = {}
    for device in sorted(free, key=lambda one: (one not in taken, free[one], one)):
        if not size:
            break
        counts[device] = min(free[device], size)
        size -= counts[device]
    return counts
