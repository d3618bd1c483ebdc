"""Logs what a decision has changed."""

from __future__ import annotations

import logging
import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from genericdp.devices.checks import NOT_PROBED
from genericdp.devices.decide import shared_ids
from genericdp.devices.devicelist import NOTHING, DeviceList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.decide import Decision, DeviceLists

log = logging.getLogger(__name__)

MOST_LINES = 100
"""Of one kind, for one resource: ten thousand devices that vanish at once need not all be named."""
_DIGITS = re.compile(r"[0-9a-fA-F]*[0-9][0-9a-fA-F]*")
_AGAIN = ("is Healthy again", "are Healthy again")
_FOR_ANOTHER_REASON = "are Unhealthy for another reason"


class _Change(Enum):
    """What has become of a device's health."""

    NONE = auto()
    FIRST = auto()
    """It waits for its first results, or they are good."""
    UP = auto()
    DOWN = auto()
    OTHER_REASON = auto()


def log_changes(before: DeviceLists, offers: DeviceLists) -> None:
    """Log what each resource offers now and did not before."""
    for name, offer in offers.items():
        was = before.get(name, NOTHING)
        _log_devices(name, was, offer, is_first=name not in before)
        _log_refusals(name, was, offer)


def warn_of_shared_ids(offers: DeviceLists, warned: frozenset[str]) -> frozenset[str]:
    """Warn of IDs that several resources use; return them, so that it is done once."""
    shared = shared_ids(offers)
    if fresh := shared - warned:
        log.warning("ids used by several resources, which kubelets mix up: %s", sorted(fresh))
    return shared


def log_failures(decision: Decision, logged: Mapping[str, str]) -> dict[str, str]:
    """Log which resources could not be decided, once with where that happened.

    Return the reasons, by resource; ``logged`` are those of the last decision.
    """
    reasons = {name: decision.lists[name].failed for name in decision.failures}
    for name, error in decision.failures.items():
        if logged.get(name) != reasons[name]:
            log.error(
                "%s; what was offered stays as it was, and this is a mistake of genericdp or of"
                " its config: please report it",
                reasons[name],
                exc_info=error,
                extra={"resource": name},
            )
        error.with_traceback(None)  # it would hold all that was built until then
    for name in logged.keys() - reasons.keys():
        log.info("it can be decided again what is offered", extra={"resource": name})
    return reasons


def _log_devices(name: str, before: DeviceList, offer: DeviceList, *, is_first: bool) -> None:
    came = [one for one in offer.devices if one not in before.devices]
    left = [one for one in before.devices if one not in offer.devices]
    by_change: dict[_Change, list[str]] = {one: [] for one in _Change}
    for device_id, one in offer.devices.items():
        was = _reason(before, device_id)
        if one.unhealthy != was:
            by_change[_change(was, one.unhealthy)].append(device_id)
    known = {
        change: [one for one in ids if one in before.devices] for change, ids in by_change.items()
    }
    first = known[_Change.FIRST]
    changed = sum(map(len, (came, left, first, known[_Change.UP], known[_Change.DOWN])))
    if is_first and by_change[_Change.FIRST]:
        count = len(offer.devices)
        log.info("devices that are probed for the first time: %d", count, extra=_about(name))
    elif is_first or changed > 1 or (first and _reason(offer, first[0])):
        log.info("%d of %d devices healthy", *_counts(offer), extra=_about(name))
    elif first:
        log.info("device %s is Healthy", first[0], extra=_about(name, first[0]))
    if not is_first and (changed == 1 or (came and left)):
        # Of those that take others' places the numbers say nothing.
        _tell_each(came, name, "is new", "are new")
        _tell_each(left, name, "has left the list", "have left the list")
    _tell_each(known[_Change.UP], name, *_AGAIN)
    reasons = {
        change: [(one, _reason(offer, one)) for one in by_change[change]]
        for change in (_Change.OTHER_REASON, _Change.DOWN)
    }
    other, fallen = reasons[_Change.OTHER_REASON], reasons[_Change.DOWN]
    _tell_reasons(other, name, logging.INFO, "is now Unhealthy because", _FOR_ANOTHER_REASON)
    _tell_reasons(fallen, name, logging.WARNING, "is Unhealthy", "are Unhealthy")


def _log_refusals(name: str, before: DeviceList, offer: DeviceList) -> None:
    about = _about(name)
    spoiler = offer.without_numa_node
    if spoiler and spoiler != before.without_numa_node:
        why = "no device carries its NUMA node, since %s has none"
        log.info(why, spoiler, extra=_about(name, spoiler))
    left_out = _left_out(offer)
    if left_out and left_out != _left_out(before):
        log.warning("list full: left out are %d of the devices", left_out, extra=about)
    told = {(one.path, one.reason) for one in before.not_offered}
    refused = [one for one in offer.not_offered if (one.path, one.reason) not in told]
    for refusal in refused[:MOST_LINES]:
        log.info("%s is not offered: %s", refusal.path, refusal.reason, extra=about)
    if rest := refused[MOST_LINES:]:
        log.info("%d more are not offered", len(rest), extra=about)


def _tell_each(ids: Sequence[str], name: str, one_does: str, more_do: str) -> None:
    for device_id in ids[:MOST_LINES]:
        log.info("device %s %s", device_id, one_does, extra=_about(name, device_id))
    if more := ids[MOST_LINES:]:
        log.info("%d more devices %s", len(more), more_do, extra=_about(name))


def _tell_reasons(
    devices: Sequence[tuple[str, str]], name: str, level: int, one_is: str, more_are: str
) -> None:
    for device_id, reason in devices[:MOST_LINES]:
        log.log(level, "device %s %s: %s", device_id, one_is, reason, extra=_about(name, device_id))
    if more := devices[MOST_LINES:]:
        log.log(level, "%d more devices %s", len(more), more_are, extra=_about(name))


def _about(resource: str, device: str = "") -> dict[str, str]:
    return {"resource": resource, "device": device}


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


def _reason(offer: DeviceList, device_id: str) -> str:
    one = offer.devices.get(device_id)
    return "" if one is None else one.unhealthy


def _gist(reason: str) -> str:
    """Give what has to change to be news: a temperature has other digits each time."""
    return _DIGITS.sub("0", reason)


def _left_out(offer: DeviceList) -> int:
    return sum(one.reason.startswith("list full: ") for one in offer.not_offered)


def _counts(offer: DeviceList) -> tuple[int, int]:
    healthy = sum(not one.unhealthy for one in offer.devices.values())
    return healthy, len(offer.devices)
