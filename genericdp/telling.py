"""Logs what a pass has changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from genericdp.devices.assembling import shared_ids
from genericdp.devices.offers import Offer

if TYPE_CHECKING:
    from genericdp.devices.assembling import Offers

log = logging.getLogger(__name__)

MOST_LINES = 100
"""Of one kind, for one resource: ten thousand devices that vanish at once need not all be named."""
_NEVER = Offer(offered={})


def tell_changes(before: Offers, offers: Offers) -> None:
    """Log what each resource offers now and did not before."""
    for name, offer in offers.items():
        was = before.get(name, _NEVER)
        if was is not offer:
            _tell_offer(name, was, offer)


def tell_shared_ids(offers: Offers, warned: frozenset[str]) -> frozenset[str]:
    """Warn of ids that several resources use; gives them, so that it is done once."""
    shared = shared_ids(offers)
    if fresh := shared - warned:
        log.warning("ids used by several resources, which kubelets mix up: %s", sorted(fresh))
    return shared


def _tell_offer(name: str, before: Offer, offer: Offer) -> None:
    about = {"resource": name}
    if before is _NEVER or _counts(before) != _counts(offer):
        log.info("%d of %d devices healthy", *_counts(offer), extra=about)
    spoiler = offer.without_numa_node
    if spoiler and spoiler != before.without_numa_node:
        log.info("no device carries its NUMA node, since %s has none", spoiler, extra=about)
    unhealthy = [
        (device_id, one.unhealthy)
        for device_id, one in offer.offered.items()
        if one.unhealthy and one.unhealthy != _reason(before, device_id)
    ]
    for device_id, reason in unhealthy[:MOST_LINES]:
        log.warning("device %s is Unhealthy: %s", device_id, reason, extra=about)
    if more := unhealthy[MOST_LINES:]:
        log.warning("%d more devices are Unhealthy", len(more), extra=about)
    left_out = _left_out(offer)
    if left_out and left_out != _left_out(before):
        log.warning("list full: left out are %d of the devices", left_out, extra=about)
    told = {(one.path, one.reason) for one in before.not_offered}
    refused = [one for one in offer.not_offered if (one.path, one.reason) not in told]
    for refusal in refused[:MOST_LINES]:
        log.info("%s is not offered: %s", refusal.path, refusal.reason, extra=about)
    if rest := refused[MOST_LINES:]:
        log.info("%d more are not offered", len(rest), extra=about)


def _reason(offer: Offer, device_id: str) -> str:
    one = offer.offered.get(device_id)
    return "" if one is None else one.unhealthy


def _left_out(offer: Offer) -> int:
    return sum(one.reason.startswith("list full: ") for one in offer.not_offered)


def _counts(offer: Offer) -> tuple[int, int]:
    healthy = sum(not one.unhealthy for one in offer.offered.values())
    return healthy, len(offer.offered)
