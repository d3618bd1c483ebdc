"""One pass from drafts to offers: who gets a contested id or node, and what stays listed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.device import Device, NotOffered
from genericdp.devices.injecting import Draft, complete
from genericdp.devices.matching import path_globs
from genericdp.devices.offers import NOTHING, Offer, Offered, advance, within_limit
from genericdp.devices.settling import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Matches
    from genericdp.model import Resource

Offers = dict[str, Offer]
"""By resource name, in the order of the config."""


def assemble(
    resources: Sequence[Resource],
    matches: Matches,
    drafts: Iterable[Draft | NotOffered],
    inventory: Inventory,
    previous: Mapping[str, Offer],
    *,
    now: float,
) -> Offers:
    """Give what each resource offers now, from what it offered before."""
    refused = list(matches.refused)
    made: list[tuple[Resource, Device]] = []
    for one in drafts:
        device: Device | NotOffered
        if isinstance(one, NotOffered):
            refused.append(one)
            continue
        device = complete(one, inventory, excluded=matches.excluded[one.resource.name])
        if isinstance(device, NotOffered):
            refused.append(device)
        else:
            made.append((one.resource, device))
    winners, losers = settle(
        made, _holding(resources, matches, made, inventory, previous), previous
    )
    by_resource: dict[str, list[NotOffered]] = {resource.name: [] for resource in resources}
    for refusal in (*refused, *losers):
        by_resource[refusal.resource].append(refusal)
    return {
        resource.name: _offer(
            resource,
            winners.get(resource.name, ()),
            tuple(by_resource[resource.name]),
            previous.get(resource.name, NOTHING).offered,
            inventory,
            now=now,
        )
        for resource in resources
    }


def _holding(
    resources: Iterable[Resource],
    matches: Matches,
    made: Iterable[tuple[Resource, Device]],
    inventory: Inventory,
    previous: Mapping[str, Offer],
) -> Iterator[tuple[Resource, Device]]:
    """Give the devices on offer that cannot be had just now and keep what is theirs.

    Their hardware and match are still there, or a folder that does not answer hides both.
    """
    here = {(resource.name, device.key) for resource, device in made}
    for resource in resources:
        offered = previous.get(resource.name, NOTHING).offered.values()
        gone = [one.device for one in offered if (resource.name, one.device.key) not in here]
        if not gone:
            continue
        matched = {candidate.key for candidate in matches.members[resource.name]}
        for device in gone:
            if device.key in matched or _hidden_by(resource, device, inventory):
                yield resource, device


def _hidden_by(resource: Resource, device: Device, inventory: Inventory) -> str:
    """Give the glob that hangs and so hides whether the device is still there."""
    if not inventory.hanging:
        return ""
    found_by = (one for one in path_globs(resource.match) if glob.matches(one, device.path))
    excluding = path_globs(resource.exclude)
    return next((one for one in (*found_by, *excluding) if one in inventory.hanging), "")


def _offer(
    resource: Resource,
    devices: Iterable[Device],
    refused: tuple[NotOffered, ...],
    before: Mapping[str, Offered],
    inventory: Inventory,
    *,
    now: float,
) -> Offer:
    offered = advance(
        before,
        devices,
        why_gone=_why_gone(resource, refused, inventory),
        now=now,
        forget_after_seconds=resource.forget_after_seconds,
    )
    kept, left_out = within_limit(resource.name, offered, before)
    return Offer(offered=kept, not_offered=(*refused, *left_out))


def _why_gone(
    resource: Resource, refused: tuple[NotOffered, ...], inventory: Inventory
) -> Callable[[Device], str]:
    @cache  # mostly nothing is gone, and nobody asks
    def reasons() -> dict[str, str]:
        return {one.key: one.reason for one in refused}

    def reason(device: Device) -> str:
        if device.key in reasons():
            return f"{device.path}: {reasons()[device.key]}"
        if hanging := _hidden_by(resource, device, inventory):
            return f"looking at {hanging} does not end"
        found = inventory.file(device.path)
        if found is None:
            return f"{device.path} does not exist"
        if found.key != device.key:
            return f"{device.path} is something else now"
        return f"{device.path} is no longer matched"

    return reason


def shared_ids(offers: Mapping[str, Offer]) -> frozenset[str]:
    """Give the ids that several resources use: kubelets up to 1.36 mix them up (LAW-4)."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for offer in offers.values():
        repeated |= seen & offer.offered.keys()
        seen |= offer.offered.keys()
    return frozenset(repeated)
