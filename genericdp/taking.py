"""What is done with new offers before the kubelet gets them: noted, logged and serialized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.kubelet.messages import DeviceList, device_list
from genericdp.telling import tell_changes, tell_shared_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from genericdp.devices.assembling import Offers
    from genericdp.devices.offers import Offer
    from genericdp.since import Since


def told(
    before: Offers,
    offers: Offers,
    known: Mapping[str, Offer],
    warned: frozenset[str],
    since: Since,
    changed: Mapping[str, Collection[str]],
) -> tuple[dict[str, DeviceList], frozenset[str]]:
    """Give the lists of the offers that are not ``known``, and the ids warned of; log the changes.

    ``changed``: by resource, the only devices that differ from ``before``; any may of a resource
    that is not in it. With one of ten thousand it is about that one alone.
    """
    few = {
        name: ids
        for name, ids in changed.items()
        if name in before and is_about_few(before[name], offers[name], ids)
    }
    since.note(before, offers, few)
    tell_changes(before, offers, few)
    fresh = {name: one for name, one in offers.items() if one is not known[name]}
    if not (before.keys() == offers.keys() and fresh.keys() <= few.keys()):
        warned = tell_shared_ids(offers, warned)
    return {name: device_list(one) for name, one in fresh.items()}, warned


def is_about_few(before: Offer, offer: Offer, changed: Collection[str]) -> bool:
    """Say whether the same ids are listed, and the same of them with NUMA nodes.

    Then nothing that is true of a list as a whole has changed.
    """
    return all(
        one in before.offered
        and one in offer.offered
        and bool(before.offered[one].device.numa_nodes)
        == bool(offer.offered[one].device.numa_nodes)
        for one in changed
    )
