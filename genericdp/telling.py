"""Logs what a pass has changed."""

from __future__ import annotations

import logging
import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from genericdp.devices.assembling import shared_ids
from genericdp.devices.offers import Offer
from genericdp.health.thresholds import NOT_PROBED
from genericdp.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.assembling import Offers

log = logging.getLogger(__name__)

MOST_LINES = 100
"""Of one kind, for one resource: ten thousand devices that vanish at once need not all be named."""
_DIGITS = re.compile(r"[0-9a-fA-F]*[0-9][0-9a-fA-F]*")
_NEVER = Offer(offered={})
_AGAIN = ("is Healthy again", "are Healthy again")


class _Change(Enum):
    """What has become of a device's health."""

    NONE = auto()
    FIRST = auto()
    """It waits for its first results, or they are good."""
    UP = auto()
    DOWN = auto()
    OTHER_REASON = auto()


def tell_changes(
    before: Offers, offers: Offers, changed: Mapping[str, Iterable[str]] | None = None
) -> None:
    """Log what each resource offers now and did not before.

    ``changed``: by resource, the ids of all that is another than before, where that is known and
    no id came or left.
    """
    for name, offer in offers.items():
        was = before.get(name, _NEVER)
        if was is offer:
            continue
        if changed and name in changed:
            _tell_few(name, was, offer, changed[name])
        else:
            _tell_offer(name, was, offer)


def tell_health(name: str, before: Offer, offer: Offer, changed: Iterable[str]) -> None:
    """Log which of the devices that changed are well now, and which are not."""
    by_change = _by_change(before, offer, changed)
    for device_id in by_change[_Change.OTHER_REASON]:
        now, about = _reason(offer, device_id), _about(name, device_id)
        log.info("device %s is now Unhealthy because: %s", device_id, now, extra=about)
    first, risen, fallen = (by_change[one] for one in (_Change.FIRST, _Change.UP, _Change.DOWN))
    if len(first) == 1 and not risen and not fallen and not _reason(offer, first[0]):
        log.info("device %s is Healthy", first[0], extra=_about(name, first[0]))
    elif first or len(risen) + len(fallen) > 1:
        # Where it is but one, its line says it all. Counting is dear: there may be ten thousand.
        log.info("%d of %d devices healthy", *_counts(offer), extra=_about(name))
    _tell_each(risen, name, *_AGAIN)
    _tell_unhealthy([(one, _reason(offer, one)) for one in fallen], name)


def tell_shared_ids(offers: Offers, warned: frozenset[str]) -> frozenset[str]:
    """Warn of ids that several resources use; gives them, so that it is done once."""
    shared = shared_ids(offers)
    if fresh := shared - warned:
        log.warning("ids used by several resources, which kubelets mix up: %s", sorted(fresh))
    return shared


def _tell_offer(name: str, before: Offer, offer: Offer) -> None:
    about = _about(name)
    if before is _NEVER and any(NOT_PROBED in one.unhealthy for one in offer.offered.values()):
        log.info("devices that are probed for the first time: %d", len(offer.offered), extra=about)
    elif before.offered is not offer.offered:
        left = [one for one in before.offered if one not in offer.offered]
        _tell_counts(name, before, offer, offer.offered, left=left)
    spoiler = offer.without_numa_node
    if spoiler and spoiler != before.without_numa_node:
        why = "no device carries its NUMA node, since %s has none"
        log.info(why, spoiler, extra=_about(name, spoiler))
    _tell_unhealthy(_fallen(before, offer, offer.offered), name)
    left_out = _left_out(offer)
    if left_out and left_out != _left_out(before):
        log.warning("list full: left out are %d of the devices", left_out, extra=about)
    told = {(one.path, one.reason) for one in before.not_offered}
    refused = [one for one in offer.not_offered if (one.path, one.reason) not in told]
    for refusal in refused[:MOST_LINES]:
        log.info("%s is not offered: %s", refusal.path, refusal.reason, extra=about)
    if rest := refused[MOST_LINES:]:
        log.info("%d more are not offered", len(rest), extra=about)


def _tell_few(name: str, before: Offer, offer: Offer, changed: Iterable[str]) -> None:
    """Log what has become of these devices; nothing else is another than before."""
    ids = sorted(changed, key=natural_key)
    _tell_counts(name, before, offer, ids, left=())
    _tell_unhealthy(_fallen(before, offer, ids), name)


def _fallen(before: Offer, offer: Offer, ids: Iterable[str]) -> list[tuple[str, str]]:
    """Give those of the devices that are Unhealthy for another reason than before, and why."""
    return [
        (device_id, reason)
        for device_id in ids
        if (reason := offer.offered[device_id].unhealthy)
        and reason != _reason(before, device_id)
        # It has just appeared: its first results are to come.
        and NOT_PROBED not in reason
    ]


def _tell_counts(
    name: str, before: Offer, offer: Offer, ids: Iterable[str], *, left: Sequence[str]
) -> None:
    """Say how many are healthy; where one device makes the difference, only what it did.

    ``ids`` are among those of the offer; ``left`` those that it had.
    """
    came, flipped = [], []
    for device_id in ids:
        was, now = before.offered.get(device_id), offer.offered[device_id]
        if was is None:
            came.append(device_id)
        elif was is not now and bool(was.unhealthy) != bool(now.unhealthy):
            flipped.append(device_id)
    changed = len(came) + len(left) + len(flipped)
    if not changed and before is not _NEVER:
        return
    by_change = _by_change(before, offer, flipped)
    first, is_one = by_change[_Change.FIRST], changed == 1 and before is not _NEVER
    if is_one and first and not _reason(offer, first[0]):
        log.info("device %s is Healthy", first[0], extra=_about(name, first[0]))
    elif not is_one or first:
        log.info("%d of %d devices healthy", *_counts(offer), extra=_about(name))
    if is_one or (came and left):  # of those that take others' places the numbers say nothing
        _tell_each(came, name, "is new", "are new")
        _tell_each(left, name, "has left the list", "have left the list")
    _tell_each(by_change[_Change.UP], name, *_AGAIN)


def _tell_each(ids: Sequence[str], name: str, one_does: str, more_do: str) -> None:
    for device_id in ids[:MOST_LINES]:
        log.info("device %s %s", device_id, one_does, extra=_about(name, device_id))
    if more := ids[MOST_LINES:]:
        log.info("%d more devices %s", len(more), more_do, extra=_about(name))


def _tell_unhealthy(fallen: Sequence[tuple[str, str]], name: str) -> None:
    for device_id, reason in fallen[:MOST_LINES]:
        about = _about(name, device_id)
        log.warning("device %s is Unhealthy: %s", device_id, reason, extra=about)
    if more := fallen[MOST_LINES:]:
        log.warning("%d more devices are Unhealthy", len(more), extra=_about(name))


def _about(resource: str, device: str = "") -> dict[str, str]:
    return {"resource": resource, "device": device}


def _by_change(before: Offer, offer: Offer, ids: Iterable[str]) -> dict[_Change, list[str]]:
    by_change: dict[_Change, list[str]] = {one: [] for one in _Change}
    for device_id in ids:
        by_change[_change(_reason(before, device_id), _reason(offer, device_id))].append(device_id)
    return by_change


def _change(was: str, now: str) -> _Change:
    was_probed, is_probed = NOT_PROBED not in was, NOT_PROBED not in now
    if was == now:
        return _Change.NONE
    if not is_probed or not (was_probed or now):
        return _Change.FIRST
    if not now:
        return _Change.UP
    if not was or not was_probed:
        return _Change.DOWN
    return _Change.NONE if _gist(now) == _gist(was) else _Change.OTHER_REASON


def _reason(offer: Offer, device_id: str) -> str:
    one = offer.offered.get(device_id)
    return "" if one is None else one.unhealthy


def _gist(reason: str) -> str:
    """Give what has to change to be news: a temperature has other digits each time."""
    return _DIGITS.sub("0", reason)


def _left_out(offer: Offer) -> int:
    return sum(one.reason.startswith("list full: ") for one in offer.not_offered)


def _counts(offer: Offer) -> tuple[int, int]:
    healthy = sum(not one.unhealthy for one in offer.offered.values())
    return healthy, len(offer.offered)
