"""An offer with what the health of its devices adds to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.offers import Offer


def judged(offer: Offer, reasons: Mapping[str, str], before: Offer) -> Offer:
    """Give the offer in which devices are Unhealthy for these reasons too, by id.

    What the host itself says of a device comes first. Entries that are as in ``before``, what this
    gave last, are the same objects.
    """
    if not reasons:
        return offer
    offered = dict(offer.offered)
    for device_id, reason in reasons.items():
        one = offered.get(device_id)
        if one is None or one.unhealthy:
            continue
        known = before.offered.get(device_id)
        if known is not None and known.device is one.device and known.unhealthy == reason:
            offered[device_id] = known
        else:
            offered[device_id] = replace(one, unhealthy=reason)
    return replace(offer, offered=offered)


def rejudged(offer: Offer, changes: Mapping[str, str], before: Offer) -> Offer:
    """Give what ``judged`` would, at the cost of a few devices among ten thousand.

    ``before`` is what it gave last, of the same offer; ``changes`` are the only reasons that have
    become other ones since (by id; empty: well).
    """
    fresh = {}
    for device_id, reason in changes.items():
        one = offer.offered.get(device_id)
        if one is None or one.unhealthy or before.offered[device_id].unhealthy == reason:
            continue
        fresh[device_id] = replace(one, unhealthy=reason) if reason else one
    return replace(before, offered={**before.offered, **fresh}) if fresh else before
