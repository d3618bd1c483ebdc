"""Since when each device is Healthy, or not: for people; nothing is decided by it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from genericdp.devices.assembling import Offers
    from genericdp.devices.offers import Offer


@dataclass(slots=True)
class _Times:
    """Of one resource; most devices never change, and cost nothing."""

    first: float
    others: dict[str, float] = field(default_factory=dict)
    """By id: of those that came or changed later."""


class Since:
    """Is told what changes, and tells when it did, in seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:  # noqa: TID251  # to be shown
        self._clock = clock
        self._times: dict[str, _Times] = {}

    def of(self, resource: str, device_id: str) -> float | None:
        """Give since when a device is as it is; None: it is not known. May be asked in a thread."""
        times = self._times.get(resource)
        return None if times is None else times.others.get(device_id, times.first)

    def note(
        self, before: Offers, offers: Offers, changed: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        """Take note of all that has changed; for ten thousand devices not on the loop.

        ``changed``: by resource, the ids of all that has, where that is known.
        """
        for name in self._times.keys() - offers.keys():
            del self._times[name]
        for name, offer in offers.items():
            was = before.get(name)
            times = self._times.get(name)
            if was is None or times is None:
                self._times[name] = _Times(self._clock())
            elif was is not offer:
                self._note(times, was, offer, (changed or {}).get(name, offer.offered))
                for device_id in times.others.keys() - offer.offered.keys():
                    del times.others[device_id]

    def note_of(self, name: str, before: Offer, offer: Offer, ids: Iterable[str]) -> None:
        """Take note of what has changed of these devices; of no others has anything changed."""
        if (times := self._times.get(name)) is not None:
            self._note(times, before, offer, ids)

    def _note(self, times: _Times, before: Offer, offer: Offer, ids: Iterable[str]) -> None:
        now = self._clock()
        for device_id in ids:
            one, was = offer.offered.get(device_id), before.offered.get(device_id)
            if one is was or one is None:
                continue
            if was is None or bool(was.unhealthy) != bool(one.unhealthy):
                times.others[device_id] = now
