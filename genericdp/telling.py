"""Logs what a pass has changed."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from genericdp.devices.assembling import shared_ids
from genericdp.devices.offers import Offer
from genericdp.health.thresholds import NOT_PROBED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.assembling import Offers

log = logging.getLogger(__name__)

MOST_LINES = 100
"""Of one kind, for one resource: ten thousand devices that vanish at once need not all be named."""
_DIGITS = re.compile(r"[0-9a-fA-F]*[0-9][0-9a-fA-F]*")
_NEVER = Offer(offered={})


def tell_changes(before: Offers, offers: Offers) -> None:
    """Log what each resource offers now and did not before."""
    for name, offer in offers.items():
        was = before.get(name, _NEVER)
        if was is not offer:
            _tell_offer(name, was, offer)


def tell_health(name: str, before: Offer, offer: Offer, changed: Iterable[str]) -> None:
    """Log which of the devices that changed are well now, and which are not."""
    about = {"resource": name}
    changed = list(changed)
    # Counting all is dear: a node may have ten thousand.
    if _healthy(before, changed) != _healthy(offer, changed):
        log.info("%d of %d devices healthy", *_counts(offer), extra=about)
    fallen = []
    for device_id in changed:
        was, now = _reason(before, device_id), _reason(offer, device_id)
        if was and not now and NOT_PROBED not in was:
            log.info("device %s is Healthy again", device_id, extra=about)
        elif not now or NOT_PROBED in now:
            continue
        elif not was or NOT_PROBED in was:
            fallen.append((device_id, now))
        elif _gist(now) != _gist(was):
            log.info("device %s is now Unhealthy because: %s", device_id, now, extra=about)
    _tell_unhealthy(fallen, about)


def tell_shared_ids(offers: Offers, warned: frozenset[str]) -> frozenset[str]:
    """Warn of ids that several resources use; gives them, so that it is done once."""
    shared = shared_ids(offers)
    if fresh := shared - warned:
        log.warning("ids used by several resources, which kubelets mix up: %s", sorted(fresh))
    return shared


def _tell_offer(name: str, before: Offer, offer: Offer) -> None:
    about = {"resource": name}
    if before is _NEVER and any(NOT_PROBED in one.unhealthy for one in offer.offered.values()):
        log.info("%d devices are probed for the first time", len(offer.offered), extra=about)
    elif before is _NEVER or _counts(before) != _counts(offer):
        log.info("%d of %d devices healthy", *_counts(offer), extra=about)
    spoiler = offer.without_numa_node
    if spoiler and spoiler != before.without_numa_node:
        log.info("no device carries its NUMA node, since %s has none", spoiler, extra=about)
    unhealthy = [
        (device_id, one.unhealthy)
        for device_id, one in offer.offered.items()
        if one.unhealthy
        and one.unhealthy != _reason(before, device_id)
        # It has just appeared: its first results are to come.
        and NOT_PROBED not in one.unhealthy
    ]
    _tell_unhealthy(unhealthy, about)
    left_out = _left_out(offer)
    if left_out and left_out != _left_out(before):
        log.warning("list full: left out are %d of the devices", left_out, extra=about)
    told = {(one.path, one.reason) for one in before.not_offered}
    refused = [one for one in offer.not_offered if (one.path, one.reason) not in told]
    for refusal in refused[:MOST_LINES]:
        log.info("%s is not offered: %s", refusal.path, refusal.reason, extra=about)
    if rest := refused[MOST_LINES:]:
        log.info("%d more are not offered", len(rest), extra=about)


def _tell_unhealthy(fallen: Sequence[tuple[str, str]], about: Mapping[str, str]) -> None:
    for device_id, reason in fallen[:MOST_LINES]:
        log.warning("device %s is Unhealthy: %s", device_id, reason, extra=about)
    if more := fallen[MOST_LINES:]:
        log.warning("%d more devices are Unhealthy", len(more), extra=about)


def _reason(offer: Offer, device_id: str) -> str:
    one = offer.offered.get(device_id)
    return "" if one is None else one.unhealthy


def _gist(reason: str) -> str:
    """Give what has to change to be news: a temperature has other digits each time."""
    return _DIGITS.sub("0", reason)


def _healthy(offer: Offer, ids: Iterable[str]) -> int:
    return sum(not _reason(offer, device_id) for device_id in ids)


def _left_out(offer: Offer) -> int:
    return sum(one.reason.startswith("list full: ") for one in offer.not_offered)


def _counts(offer: Offer) -> tuple[int, int]:
    healthy = sum(not one.unhealthy for one in offer.offered.values())
    return healthy, len(offer.offered)
